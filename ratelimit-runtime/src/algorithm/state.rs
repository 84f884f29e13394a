//! [`AlgorithmState`]: the operations that every algorithm has on the state of a key.

use smallvec::SmallVec;

use super::demand::Demand;
use super::status::{LimitStatus, Standing};

/// The end of a reservation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settlement {
    pub(crate) ticket: u64,
    /// `true` for an estimate, which was charged at once; `false` for a cost that `count` reserved
    /// apart from charges.
    pub(crate) is_estimate: bool,
    pub(crate) actual: u64,
    /// `true` if this was sent before: then nothing is charged for a reservation whose window is
    /// over.
    pub(crate) is_sent_again: bool,
}

/// The outcome of a settlement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SettlementOutcome {
    /// `true` if the reservation was open, as far as the state can tell.
    pub(crate) was_open: bool,
    /// The part of the actual cost that was too much to be charged.
    pub(crate) dropped: u64,
    /// `true` if the state changed.
    pub(crate) changed: bool,
}

/// The answer to a call that is charged if its limits admit it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) standing: Standing,
    /// The ticket of the charge; 0 if the call is refused.
    pub(crate) ticket: u64,
    /// The [`life`](AlgorithmState::life) of the state after a charge.
    pub(crate) life: u64,
    /// The [`reset`](AlgorithmState::reset) of the limit that decides.
    pub(crate) reset: u64,
}

impl Taken {
    /// [`AlgorithmState::take`] by the single operations of the state, one after the other.
    #[inline(never)]
    pub(super) fn step_by_step(
        state: &mut impl AlgorithmState,
        demand: &Demand<'_>,
        now: u64,
    ) -> Self {
        let standing = state.standing(demand, now);
        let (ticket, life) = match standing.status.wait {
            0 => (state.charge(demand, now), state.life(demand, now)),
            _ => (0, 0),
        };
        Self {
            standing,
            ticket,
            life,
            reset: state.reset(demand, standing.limit, now),
        }
    }
}

/// The state of one key, for all limits of the demand. Times are absolute, in microseconds; `now`
/// is never before the newest write, unless the algorithm [keeps times](Self::KEEPS_TIMES).
pub(crate) trait AlgorithmState: Default {
    /// `true` if each unit of cost is kept with a time of its own. Then `now` is the clock's time,
    /// even if the clock has stepped back; else it is at least the time of the newest write.
    const KEEPS_TIMES: bool;

    /// The time of the newest write; 0 where the state [keeps times](Self::KEEPS_TIMES).
    fn newest(&self) -> u64;

    /// The status of each limit for the call, in the order of the limits. Reservations count.
    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 4]>;

    /// The standing of all limits together for the call.
    fn standing(&mut self, demand: &Demand<'_>, now: u64) -> Standing {
        let mut standing = Standing::of_none();
        for (index, status) in self.statuses(demand, now).into_iter().enumerate() {
            standing.add(index, status);
        }
        standing
    }

    /// Charges every limit if all of them admit the call, whose cost is at least 1.
    fn take(&mut self, demand: &Demand<'_>, now: u64) -> Taken;

    /// `true` if `count` reserves a part of a limit.
    fn reserves(&self, demand: &Demand<'_>, now: u64) -> bool;

    /// The standing of a call that the limits refuse, where `count` reserves some of the cost: each
    /// wait is as if the reservations were released, and a limit that would then admit waits for
    /// [`RESERVED_WAIT`](super::RESERVED_WAIT). Also `true` if every limit that refuses would then
    /// admit. Call [`standing`](Self::standing) at `now` before.
    fn standing_behind_reservations(&self, demand: &Demand<'_>, now: u64) -> (Standing, bool);

    /// The microseconds until `limit` is whole. Call [`standing`](Self::standing) at `now` before.
    fn reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> u64;

    /// Charges or reserves the cost of every limit; returns the ticket. The limits admit the call,
    /// by their [`standing`](Self::standing) at `now`: `remaining` is less by its cost afterwards.
    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64;

    /// The microseconds from `now` on for which the state matters.
    fn life(&self, demand: &Demand<'_>, now: u64) -> u64;

    /// Gives back a charge. `true` if a part of it still counted.
    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool;

    /// Ends a reservation.
    fn settle(
        &mut self,
        demand: &Demand<'_>,
        settlement: &Settlement,
        now: u64,
    ) -> SettlementOutcome;

    /// Makes it a new state; tickets may go on.
    fn clear(&mut self);
}

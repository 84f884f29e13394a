//! [`AlgorithmState`]: the operations of every algorithm on its state.

use smallvec::SmallVec;

use super::demand::Demand;
use super::status::{LimitStatus, Standing};

/// How a reservation ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settlement {
    pub(crate) ticket: u64,
    /// Whether it was an estimate, which is a charge from the beginning. Else it was reserved by
    /// `count`, apart from charges.
    pub(crate) is_estimate: bool,
    pub(crate) actual: u64,
    /// Whether it was sent before: then nothing is charged anew.
    pub(crate) is_sent_again: bool,
}

/// The outcome of a settlement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SettlementOutcome {
    /// Whether the reservation was open, as far as that is known.
    pub(crate) was_open: bool,
    /// How much of the actual cost was too much to be charged.
    pub(crate) dropped: u64,
    /// Whether anything changed.
    pub(crate) changed: bool,
}

/// The answer to a call that asked to be charged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) standing: Standing,
    /// 0 if the call is refused, and nothing was charged.
    pub(crate) ticket: u64,
    /// [`life`](AlgorithmState::life), if it was charged.
    pub(crate) life: u64,
    /// [`reset`](AlgorithmState::reset) of the limit that decides.
    pub(crate) reset: u64,
}

impl Taken {
    /// Takes by the single operations of the state, one after the other.
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

/// The state of one key, for all limits of the demand. All times are absolute, in microseconds;
/// `now` is never before the time of the newest write, unless the algorithm numbers its units.
pub(crate) trait AlgorithmState: Default {
    /// Whether each unit of cost is kept with a time of its own. Then `now` is the clock as it is;
    /// else time stands still at the newest write.
    const KEEPS_TIMES: bool;

    /// The time of the newest write, where time stands still at that.
    fn newest(&self) -> u64;

    /// The status of each limit for the call, in the order of the limits. Reservations count.
    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 4]>;

    /// The standing of all limits together.
    fn standing(&mut self, demand: &Demand<'_>, now: u64) -> Standing {
        let mut standing = Standing::of_none();
        for (index, status) in self.statuses(demand, now).into_iter().enumerate() {
            standing.add(index, status);
        }
        standing
    }

    /// Charges every limit if all of them admit the call, which costs something.
    fn take(&mut self, demand: &Demand<'_>, now: u64) -> Taken;

    /// Whether anything is reserved by `count`.
    fn reserves(&self, demand: &Demand<'_>, now: u64) -> bool;

    /// The standing of a call that the limits refuse, where some of the cost is reserved by
    /// `count`: limits wait as if it were released, and a limit that would admit then for
    /// [`RESERVED_WAIT`](super::RESERVED_WAIT). Says also whether all that refuse would admit then.
    /// The limits have been asked for their [`standing`](Self::standing) at `now`.
    fn standing_behind_reservations(&self, demand: &Demand<'_>, now: u64) -> (Standing, bool);

    /// How long until a limit is whole again. It has been asked for its
    /// [`standing`](Self::standing) at `now`.
    fn reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> u64;

    /// Charges or reserves the cost of every limit; returns the ticket. The limits have been asked
    /// for their [`standing`](Self::standing) at `now`, and admit the call: `remaining` is now less
    /// by its cost.
    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64;

    /// How long the state matters from now on, in microseconds.
    fn life(&self, demand: &Demand<'_>, now: u64) -> u64;

    /// Gives back a charge; says whether anything of it was left.
    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool;

    /// Ends a reservation.
    fn settle(
        &mut self,
        demand: &Demand<'_>,
        settlement: &Settlement,
        now: u64,
    ) -> SettlementOutcome;

    /// Makes it a new state.
    fn clear(&mut self);
}

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
    /// The standing before the charge; `reset` is that after it.
    pub(crate) standing: Standing,
    /// The ticket of the charge; 0 if the call is refused.
    pub(crate) ticket: u64,
    /// The [`life`](AlgorithmState::life) of the state after a charge.
    pub(crate) life: u64,
}

impl Taken {
    /// The answer of a state of one limit, which lives until that is whole.
    #[inline]
    pub(super) fn of_one(status: LimitStatus, ticket: u64) -> Self {
        Self {
            standing: Standing::of_one(status),
            ticket,
            life: status.reset,
        }
    }
}

/// The state of one key, for all limits of the demand. Times are absolute, in microseconds; `now`
/// is never before [`newest`](Self::newest).
pub(crate) trait AlgorithmState: Default {
    /// The time of the newest write; 0 if each unit of cost is kept with a time of its own, so that
    /// `now` may be the time of a clock that has stepped back.
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

    /// [`take`](Self::take) by the single operations of the state, one after the other.
    #[inline(never)]
    fn take_step_by_step(&mut self, demand: &Demand<'_>, now: u64) -> Taken {
        let mut standing = self.standing(demand, now);
        let (mut ticket, mut life) = (0, 0);
        if standing.status.wait == 0 {
            ticket = self.charge(demand, now);
            life = self.life(demand, now);
            // The limit that had the least left has it still.
            let further = Demand { cost: 0, ..*demand };
            standing.status.reset = self.standing(&further, now).status.reset;
        }
        Taken {
            standing,
            ticket,
            life,
        }
    }

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

    /// Makes this a new state, whose tickets may continue.
    fn clear(&mut self);
}

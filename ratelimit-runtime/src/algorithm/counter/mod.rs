//! [`Counters`]: the state of algorithms that keep a few numbers per limit, and what they have in
//! common: reservations, estimates, settlements. An algorithm adds its arithmetic by [`Counter`].

mod open;

use std::iter;

use smallvec::SmallVec;

pub(crate) use self::open::{Estimates, Open, Past};
use super::demand::{Demand, Reserves};
use super::state::{AlgorithmState, Settlement, SettlementOutcome, Taken};
use super::status::LimitStatus;
use crate::rule::Limit;

/// The numbers of one limit, as a value: bringing them to a later time makes another value, which
/// only a write keeps. So a refusal changes nothing, in memory as in Redis.
///
/// Reservations are kept apart, because most keys have none; windows also include them.
pub(crate) trait Counter: Copy + Default + PartialEq {
    /// The numbers at `now`; stored numbers are those at `newest`, the time of the newest write.
    fn at(self, limit: &Limit, newest: u64, now: u64) -> Self;

    /// The status of the limit for a call; the numbers are at `now`.
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus;

    /// Charges at `now` if the limit admits that. Gives the new numbers, and the status before the
    /// charge with the [`life`](Self::life) after it.
    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn take(self, limit: &Limit, cost: u64, newest: u64, now: u64) -> (Self, LimitStatus) {
        let mut counter = self.at(limit, newest, now);
        let mut status = counter.status(limit, cost, now);
        if status.wait == 0 {
            counter.charge(limit, cost);
            status.reset = counter.life(limit, now);
        }
        (counter, status)
    }

    /// The used part of the limit, in units of cost, rounded up; the numbers are at `now`.
    fn used(&self, limit: &Limit, now: u64) -> u64;

    /// Adds `cost`; the numbers are at the time of the charge.
    fn charge(&mut self, limit: &Limit, cost: u64);

    /// The microseconds for which the numbers matter: until the limit is whole. They are at `now`.
    fn life(&self, limit: &Limit, now: u64) -> u64;

    /// The reserved cost brought to `now`, from `newest`; the numbers are at `now`.
    fn open_at(&self, open: Open, limit: &Limit, newest: u64, now: u64) -> Open;

    /// The microseconds for which the reserved cost matters, beside the numbers.
    fn life_of_open(&self, _: &Open, _: &Limit, _now: u64) -> u64 {
        0
    }

    /// The numbers as if the reserved cost were charged now.
    fn with(self, _: &Open, _: &Limit) -> Self {
        self
    }

    /// The numbers as if the reserved cost were released.
    fn without(self, open: &Open) -> Self;

    /// Adds `cost` where estimates may be open; the numbers are at the time of the charge.
    fn charge_beside(&mut self, _: &mut Open, limit: &Limit, cost: u64) {
        self.charge(limit, cost);
    }

    /// Adds an estimate of `cost`; the numbers are at `now`.
    fn estimate(&mut self, _: &mut Open, limit: &Limit, cost: u64, _now: u64) {
        self.charge(limit, cost);
    }

    /// Reserves `cost`; the numbers are at `now`.
    fn reserve(&mut self, open: &mut Open, limit: &Limit, cost: u64, now: u64);

    /// Ends a reservation and gives back the part of it that the call did not cost, as far as that
    /// still counts. Returns whether the reservation may have been open, and the cost to charge
    /// now; `None` if its window is over, or the numbers do not include it.
    fn settle(&mut self, open: &mut Open, limit: &Limit, past: &Past) -> Option<(bool, u64)>;
}

/// The numbers of all limits, in their order, and the cost of open reservations.
#[derive(Debug, Default)]
pub(crate) struct Counters<C> {
    /// The numbers of a single limit of which nothing is reserved, as most keys have.
    only: C,
    /// The time of the newest write.
    newest: u64,
    /// The numbers and the reserved cost of each limit, if there are several limits or
    /// reservations.
    each: Option<Box<Each<C>>>,
}

/// The numbers and the reserved cost of each limit.
type Each<C> = SmallVec<[(C, Open); 2]>;

impl<C: Counter> Counters<C> {
    /// The numbers and reserved cost of each limit at `now`; the default for new limits.
    fn brought(&self, demand: &Demand<'_>, now: u64) -> Each<C> {
        let only = [(self.only, Open::default())];
        let kept = self.each.as_ref().map_or(&only[..], |each| each);
        let kept = kept
            .iter()
            .cloned()
            .chain(iter::repeat_with(Default::default));
        let brought = |(limit, (counter, open)): (&Limit, (C, Open))| {
            let counter = counter.at(limit, self.newest, now);
            (
                counter,
                counter.open_at(open, limit, self.newest, now).or_none(),
            )
        };
        demand.limits.iter().zip(kept).map(brought).collect()
    }

    /// Stores numbers that were brought to `now` and then changed.
    fn keep(&mut self, demand: &Demand<'_>, mut brought: Each<C>, now: u64) {
        for (limit, (counter, _)) in demand.limits.iter().zip(&mut brought) {
            // Where nothing counts, the next charge begins anew.
            if counter.life(limit, now) == 0 {
                *counter = C::default();
            }
        }
        self.newest = now;
        match &*brought {
            &[(only, ref open)] if open.is_none() => (self.only, self.each) = (only, None),
            _ => **self.each.get_or_insert_default() = brought,
        }
    }
}

impl<C: Counter> AlgorithmState for Counters<C> {
    #[inline]
    fn newest(&self) -> u64 {
        self.newest
    }

    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn take(&mut self, demand: &Demand<'_>, now: u64) -> Taken {
        let ([limit], None) = (demand.limits, &self.each) else {
            return self.take_step_by_step(demand, now);
        };
        if demand.reserves != Reserves::Nothing {
            return self.take_step_by_step(demand, now);
        }
        let (counter, status) = self.only.take(limit, demand.cost, self.newest, now);
        let mut ticket = 0;
        if status.wait == 0 {
            (self.only, self.newest, ticket) = (counter, now, now);
        }
        Taken::of_one(status, ticket)
    }

    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 4]> {
        let brought = self.brought(demand, now);
        let status = |(limit, (counter, open)): (&Limit, &(C, Open))| {
            let status = |counter: C| counter.status(limit, demand.cost, now);
            match open.sum() {
                0 => status(*counter),
                _ => status(counter.with(open, limit)).or_released(status(counter.without(open))),
            }
        };
        demand.limits.iter().zip(&brought).map(status).collect()
    }

    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        let mut brought = self.brought(demand, now);
        for (limit, (counter, open)) in demand.limits.iter().zip(&mut brought) {
            match demand.reserves {
                Reserves::Nothing => counter.charge_beside(open, limit, demand.cost),
                Reserves::Estimate => counter.estimate(open, limit, demand.cost, now),
                Reserves::Cost => counter.reserve(open, limit, demand.cost, now),
            }
        }
        self.keep(demand, brought, now);
        now
    }

    fn life(&self, demand: &Demand<'_>, now: u64) -> u64 {
        let brought = self.brought(demand, now);
        let each = demand.limits.iter().zip(&brought);
        each.flat_map(|(limit, (counter, open))| {
            [
                counter.life(limit, now),
                counter.life_of_open(open, limit, now),
            ]
        })
        .max()
        .unwrap_or(0)
    }

    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        // A refund is the settlement of an estimate whose call did cost nothing, but ends none.
        let settlement = Settlement {
            ticket,
            is_estimate: true,
            actual: 0,
            is_sent_again: true,
        };
        self.settle(demand, &settlement, now).changed
    }

    fn settle(
        &mut self,
        demand: &Demand<'_>,
        &settlement: &Settlement,
        now: u64,
    ) -> SettlementOutcome {
        let mut brought = self.brought(demand, now);
        let before = brought.clone();
        let past = Past {
            settlement,
            cost: demand.cost,
            newest: self.newest,
            now,
        };
        let anew = if settlement.is_sent_again {
            0
        } else {
            settlement.actual
        };
        let mut outcome = SettlementOutcome::default();
        for (limit, (counter, open)) in demand.limits.iter().zip(&mut brought) {
            let (was_open, more) = counter.settle(open, limit, &past).unwrap_or((false, anew));
            let left = demand
                .most_used(limit)
                .saturating_sub(counter.with(open, limit).used(limit, now));
            counter.charge_beside(open, limit, more.min(left));
            outcome.was_open |= was_open;
            outcome.dropped = outcome.dropped.max(more.saturating_sub(left));
        }
        outcome.changed = brought != before;
        if outcome.changed {
            self.keep(demand, brought, now);
        }
        outcome
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

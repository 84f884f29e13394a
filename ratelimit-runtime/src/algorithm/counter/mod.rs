//! [`Counters`]: the state of algorithms that keep a few numbers per limit.

mod open;

use std::iter;

use smallvec::SmallVec;

pub(crate) use self::open::{Open, Past};
use super::demand::{Demand, Reserves};
use super::state::{AlgorithmState, Settlement, SettlementOutcome, Taken};
use super::status::{LimitStatus, Standing};
use crate::rule::Limit;

/// The numbers of one limit, as a value: bringing them to a later time makes another value, which
/// only a write keeps. So a refusal changes nothing, in memory as in Redis.
///
/// Reservations by `count` are kept apart, because most keys have none; windows also include them.
pub(crate) trait Counter: Copy + Default + PartialEq {
    /// The numbers at `now`; stored numbers are those at `newest`, the time of the newest write.
    fn at(self, limit: &Limit, newest: u64, now: u64) -> Self;

    /// The status of the limit for a call; the numbers are at `now`.
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus;

    /// Charges at `now` if the limit admits that. Gives the new numbers, the status before the
    /// charge, and the [`life`](Self::life) of the numbers.
    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn take(self, limit: &Limit, cost: u64, newest: u64, now: u64) -> (Self, LimitStatus, u64) {
        let mut counter = self.at(limit, newest, now);
        let status = counter.status(limit, cost, now);
        if status.wait == 0 {
            counter.charge(limit, cost);
        }
        (counter, status, counter.life(limit, now))
    }

    /// The used part of the limit, in units of cost, rounded up; the numbers are at `now`.
    fn used(&self, limit: &Limit, now: u64) -> u64;

    /// Adds `cost`; the numbers are at the time of the charge.
    fn charge(&mut self, limit: &Limit, cost: u64);

    /// The microseconds for which the numbers matter: until the limit is whole. They are at `now`.
    fn life(&self, limit: &Limit, now: u64) -> u64;

    /// The reserved cost brought to `now`; the numbers are at `now`.
    fn open_at(&self, open: Open, limit: &Limit, now: u64) -> Open;

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

    /// Reserves `cost`; the numbers are at `now`.
    fn reserve(&mut self, open: &mut Open, limit: &Limit, cost: u64, now: u64);

    /// Ends a reservation and gives back the part of it that the call did not cost, as far as that
    /// still counts. Returns whether the reservation may have been open, and the cost to charge
    /// now; `None` if its window is over, or the numbers do not include it.
    fn settle(&mut self, open: &mut Open, limit: &Limit, past: &Past) -> Option<(bool, u64)>;
}

/// The numbers of all limits, in their order, and the cost reserved by `count`.
#[derive(Debug, Default)]
pub(crate) struct Counters<C> {
    first: C,
    /// The time of the newest write.
    newest: u64,
    /// Further limits, and reservations, which most keys do not have.
    more: Option<Box<More<C>>>,
}

#[derive(Debug, Default)]
struct More<C> {
    /// The numbers of all limits but the first.
    others: Vec<C>,
    /// The reserved cost of each limit; empty if nothing is reserved.
    open: SmallVec<[Open; 1]>,
}

/// The numbers of all limits and the reserved cost, brought to one time.
struct Brought<C>(SmallVec<[(C, Open); 2]>);

impl<C: Counter> Counters<C> {
    /// The numbers of each limit; new limits begin at the default.
    fn each_mut(&mut self, limits: usize) -> impl Iterator<Item = &mut C> {
        let others = match limits {
            0 | 1 => self.more.as_mut(),
            _ => Some(self.more.get_or_insert_default()),
        };
        let others = others.map(|more| {
            more.others.resize(limits.saturating_sub(1), C::default());
            &mut more.others
        });
        iter::once(&mut self.first).chain(others.into_iter().flatten())
    }

    /// The numbers and reserved cost of each limit at `now`; the default for new limits.
    fn brought(&self, demand: &Demand<'_>, now: u64) -> Brought<C> {
        let others = self
            .more
            .iter()
            .flat_map(|more| more.others.iter().copied());
        let kept = iter::once(self.first)
            .chain(others)
            .chain(iter::repeat(C::default()));
        let open = self
            .more
            .iter()
            .flat_map(|more| more.open.iter().copied())
            .chain(iter::repeat(Open::default()));
        let each = demand
            .limits
            .iter()
            .zip(kept)
            .zip(open)
            .map(|((limit, kept), open)| {
                let counter = kept.at(limit, self.newest, now);
                let open = if open.sum() == 0 {
                    open
                } else {
                    counter.open_at(open, limit, now).or_none()
                };
                (counter, open)
            });
        Brought(each.collect())
    }

    /// Stores numbers that were brought to `now` and then changed.
    fn keep(&mut self, demand: &Demand<'_>, brought: &Brought<C>, now: u64) {
        for ((limit, (counter, _)), kept) in
            brought.each(demand).zip(self.each_mut(demand.limits.len()))
        {
            // Where nothing counts, the next charge begins anew.
            *kept = if counter.life(limit, now) == 0 {
                C::default()
            } else {
                *counter
            };
        }
        self.newest = now;
        if brought.reserves() {
            self.more.get_or_insert_default().open =
                brought.0.iter().map(|(_, open)| open.or_none()).collect();
        } else if let Some(more) = &mut self.more {
            more.open = SmallVec::new();
        }
        self.more
            .take_if(|more| more.others.is_empty() && more.open.is_empty());
    }
}

impl<C: Counter> Brought<C> {
    fn each<'a>(
        &'a self,
        demand: &'a Demand<'_>,
    ) -> impl Iterator<Item = (&'a Limit, &'a (C, Open))> {
        demand.limits.iter().zip(&self.0)
    }

    /// The status of each limit at `now`; reservations count.
    fn statuses<'a>(
        &'a self,
        demand: &'a Demand<'_>,
        now: u64,
    ) -> impl Iterator<Item = LimitStatus> + 'a {
        let cost = demand.cost;
        self.each(demand)
            .map(move |(limit, (counter, open))| counter.with(open, limit).status(limit, cost, now))
    }

    fn reserves(&self) -> bool {
        self.0.iter().any(|(_, open)| open.sum() > 0)
    }
}

impl<C: Counter> AlgorithmState for Counters<C> {
    const KEEPS_TIMES: bool = false;

    #[inline]
    fn newest(&self) -> u64 {
        self.newest
    }

    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn take(&mut self, demand: &Demand<'_>, now: u64) -> Taken {
        let ([limit], None) = (demand.limits, &self.more) else {
            return Taken::step_by_step(self, demand, now);
        };
        let (counter, status, life) = self.first.take(limit, demand.cost, self.newest, now);
        let ticket = if status.wait == 0 { now } else { 0 };
        if status.wait == 0 {
            (self.first, self.newest) = (counter, now);
        }
        Taken {
            standing: Standing { limit: 0, status },
            ticket,
            life,
            reset: life,
        }
    }

    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 4]> {
        self.brought(demand, now).statuses(demand, now).collect()
    }

    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost more than it does"
    )]
    #[inline(always)]
    fn reserves(&self, demand: &Demand<'_>, now: u64) -> bool {
        self.more.as_ref().is_some_and(|more| !more.open.is_empty())
            && self.brought(demand, now).reserves()
    }

    fn standing_behind_reservations(&self, demand: &Demand<'_>, now: u64) -> (Standing, bool) {
        let brought = self.brought(demand, now);
        let (mut standing, mut only_reserved) = (Standing::of_none(), true);
        let statuses = brought.statuses(demand, now);
        for (index, ((limit, (counter, open)), status)) in
            brought.each(demand).zip(statuses).enumerate()
        {
            let released = counter.without(open).status(limit, demand.cost, now);
            only_reserved &= !standing.add_released(index, status, released.wait);
        }
        (standing, only_reserved)
    }

    fn reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> u64 {
        let brought = self.brought(demand, now);
        let decisive = brought.each(demand).nth(limit);
        debug_assert!(
            decisive.is_some() || demand.limits.is_empty(),
            "the limit that decides is one of the call's"
        );
        decisive.map_or(0, |(limit, (counter, open))| {
            counter.with(open, limit).life(limit, now)
        })
    }

    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        let mut brought = self.brought(demand, now);
        for (limit, (counter, open)) in demand.limits.iter().zip(&mut brought.0) {
            match demand.reserves {
                Reserves::Nothing | Reserves::Estimate => counter.charge(limit, demand.cost),
                Reserves::Cost => counter.reserve(open, limit, demand.cost, now),
            }
        }
        self.keep(demand, &brought, now);
        now
    }

    fn life(&self, demand: &Demand<'_>, now: u64) -> u64 {
        let brought = self.brought(demand, now);
        let lives = brought.each(demand).map(|(limit, (counter, open))| {
            counter
                .life(limit, now)
                .max(counter.life_of_open(open, limit, now))
        });
        lives.max().unwrap_or(0)
    }

    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        // A refund is the settlement of an estimate whose call did cost nothing.
        let settlement = Settlement {
            ticket,
            is_estimate: true,
            actual: 0,
            is_sent_again: false,
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
        let before = brought.0.clone();
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
        for (limit, (counter, open)) in demand.limits.iter().zip(&mut brought.0) {
            let (was_open, more) = counter.settle(open, limit, &past).unwrap_or((false, anew));
            let left = demand
                .most_used(limit)
                .saturating_sub(counter.with(open, limit).used(limit, now));
            counter.charge(limit, more.min(left));
            outcome.was_open |= was_open;
            outcome.dropped = outcome.dropped.max(more.saturating_sub(left));
        }
        outcome.changed = brought.0 != before;
        if outcome.changed {
            self.keep(demand, &brought, now);
        }
        outcome
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

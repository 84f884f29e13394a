//! The exact sliding window: a log of admissions, unit by unit.
//!
//! Each unit of cost has a microsecond of its own, its ticket: the time of its admission, or one
//! more than the newest where that is not past. At any moment `t`, a limit counts the units with
//! tickets in `(t − window, t]` and later ones. A call is admitted if for every limit this sum plus
//! the cost is at most `max`.

mod long;

use std::ops::RangeInclusive;

use smallvec::{SmallVec, smallvec};

use self::long::Long;
use super::demand::{Demand, Reserves};
use super::state::{AlgorithmState, Settlement, SettlementOutcome, Taken};
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const SCRIPT: super::Lua = super::Lua {
    source: include_str!("../../store/redis/scripts/generated/sliding_window.lua"),
    number: |limit, remaining, _| (remaining, limit.window_us()),
};

/// The most units of an actual cost that are charged: each unit takes memory in a log.
const MOST_ACTUAL: u64 = 1_000;

/// The number of units kept in place, while all of them are charges under a single limit.
const FEW: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The tickets of the units, ascending, then zeros; all zeros beside a long log.
    few: [u64; FEW],
    /// The newest ticket. It outlives its unit, so that no later charge gets the ticket of a
    /// refunded one. It is also past every window of a removed unit: where the clock steps back, no
    /// unit is admitted into one window with removed units.
    ticket: u64,
    long: Option<Box<Long>>,
}

impl Log {
    /// Makes the log a long one, and removes units that have left every window.
    fn long(&mut self, limits: &[Limit], now: u64) -> &mut Long {
        let few = std::mem::take(&mut self.few)
            .into_iter()
            .filter(|ticket| *ticket > 0);
        let long = self
            .long
            .get_or_insert_with(|| Box::new(Long::of_units(few)));
        long.let_go(longest(limits), now, &mut self.ticket);
        long
    }

    /// The status of `limit`, where `few` holds all units.
    #[inline]
    fn status_of_few(&mut self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let window = limit.window_us();
        if self.few[0] + window <= now {
            self.let_go_of_few(window, now);
        }
        let used = self.few.iter().filter(|ticket| **ticket > 0).count() as u64;
        let excess = (used + cost).saturating_sub(limit.max());
        let last = usize::try_from(excess)
            .ok()
            .and_then(|excess| self.few.get(excess.checked_sub(1)?));
        let wait = last
            .filter(|last| **last > 0)
            .map_or(0, |last| last + window - now);
        debug_assert!(
            (wait > 0) == (excess > 0) || cost > limit.max(),
            "as many units as are too many count, and will leave"
        );
        let newest = self.few.into_iter().fold(0, u64::max);
        let reset = if newest > 0 { newest + window - now } else { 0 };
        LimitStatus::new(wait, limit.max().saturating_sub(used), reset)
    }

    #[cold]
    fn let_go_of_few(&mut self, window: u64, now: u64) {
        for _ in 0..FEW {
            let [first, second, third] = self.few;
            if first == 0 || first + window > now {
                return;
            }
            self.ticket = self.ticket.max(first + window - 1);
            self.few = [second, third, 0];
        }
    }

    /// Charges, where `few` holds all units and has room; returns the first ticket.
    #[inline]
    fn charge_to_few(&mut self, cost: u64, now: u64) -> u64 {
        let next = next(&mut self.ticket, cost, now);
        let free = self.few.iter_mut().filter(|ticket| **ticket == 0);
        free.zip(next.clone())
            .for_each(|(free, ticket)| *free = ticket);
        *next.start()
    }

    #[inline]
    fn has_room(&self, cost: u64) -> bool {
        cost <= self.few.iter().filter(|ticket| **ticket == 0).count() as u64
    }

    /// Charges to a long log; returns the first and last ticket.
    fn charge_to_long(&mut self, demand: &Demand<'_>, cost: u64, now: u64) -> (u64, u64) {
        let next = next(&mut self.ticket, cost, now);
        self.long(demand.limits, now).add(next.clone());
        next.into_inner()
    }

    /// Charges up to twice the capacity of each limit; returns the charged cost.
    fn charge_beyond(&mut self, demand: &Demand<'_>, cost: u64, now: u64) -> u64 {
        let long = self.long(demand.limits, now);
        let free = demand.limits.iter().map(|limit| {
            demand
                .most_used(limit)
                .saturating_sub(long.view(limit, now).used)
        });
        let charged = cost.min(free.min().unwrap_or(0));
        if charged > 0 {
            self.charge_to_long(demand, charged, now);
        }
        charged
    }

    /// [`take`](AlgorithmState::take) under a single limit, where `few` holds all units.
    #[inline]
    fn take_one_of_few(&mut self, limit: &Limit, demand: &Demand<'_>, now: u64) -> Taken {
        let mut status = self.status_of_few(limit, demand.cost, now);
        let ticket = match status.wait {
            0 if self.has_room(demand.cost) => self.charge_to_few(demand.cost, now),
            0 => self.charge_to_long(demand, demand.cost, now).0,
            _ => 0,
        };
        if ticket > 0 {
            status.reset = self.ticket + limit.window_us() - now;
        }
        Taken::of_one(status, ticket)
    }

    /// [`take`](AlgorithmState::take) under one limit, for a long log without reservations.
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost what an eighth of it does"
    )]
    #[inline(always)]
    fn take_one_of_many(&mut self, limit: &Limit, demand: &Demand<'_>, now: u64) -> Taken {
        let Some(long) = self.long.as_mut().filter(|long| long.is_plain()) else {
            return self.take_step_by_step(demand, now);
        };
        let window = limit.window_us();
        long.let_go(window, now, &mut self.ticket);
        let mut status = long.status_of_charges(long.all(window), limit, demand.cost, now);
        if status.wait > 0 {
            return Taken::of_one(status, 0);
        }
        let next = next(&mut self.ticket, demand.cost, now);
        long.add(next.clone());
        status.reset = self.ticket + window - now;
        Taken::of_one(status, *next.start())
    }
}

/// The tickets of the next `cost` units. Sets `newest` to the last of them.
#[inline]
fn next(newest: &mut u64, cost: u64, now: u64) -> RangeInclusive<u64> {
    let first = now.max(*newest + 1);
    *newest = first + cost - 1;
    first..=*newest
}

fn longest(limits: &[Limit]) -> u64 {
    limits.iter().map(Limit::window_us).max().unwrap_or(0)
}

/// The last ticket of a charge, whose first is `ticket`.
fn last_of(ticket: u64, cost: u64) -> u64 {
    ticket.saturating_add(cost).saturating_sub(1)
}

impl AlgorithmState for Log {
    #[inline]
    fn newest(&self) -> u64 {
        0
    }

    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    fn take(&mut self, demand: &Demand<'_>, now: u64) -> Taken {
        match demand.limits {
            [limit] if demand.reserves == Reserves::Nothing => {
                if self.long.is_none() {
                    self.take_one_of_few(limit, demand, now)
                } else {
                    self.take_one_of_many(limit, demand, now)
                }
            }
            _ => self.take_step_by_step(demand, now),
        }
    }

    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 4]> {
        if let ([limit], None) = (demand.limits, &self.long) {
            return smallvec![self.status_of_few(limit, demand.cost, now)];
        }
        let long = self.long(demand.limits, now);
        let status = |limit| long.status(limit, demand.cost, now);
        demand.limits.iter().map(status).collect()
    }

    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        let reserves = demand.reserves != Reserves::Nothing;
        let is_of_few = self.long.is_none() && demand.limits.len() == 1;
        if is_of_few && !reserves && self.has_room(demand.cost) {
            return self.charge_to_few(demand.cost, now);
        }
        let (first, last) = self.charge_to_long(demand, demand.cost, now);
        if reserves {
            self.long(demand.limits, now)
                .open(first, last, demand.reserves == Reserves::Estimate);
        }
        first
    }

    /// Measured from the newest ticket, which may be ahead of the clock.
    fn life(&self, demand: &Demand<'_>, now: u64) -> u64 {
        let is_empty =
            self.few[0] == 0 && self.long.as_ref().is_none_or(|long| long.units.is_empty());
        // Where all was given back, the ticket alone is remembered, until the clock has passed it.
        let lasts = if is_empty { 1 } else { longest(demand.limits) };
        (self.ticket + lasts).saturating_sub(now)
    }

    /// Removes the units that still count, except those of reservations to settle.
    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        self.long(demand.limits, now)
            .remove(ticket, last_of(ticket, demand.cost))
    }

    fn settle(
        &mut self,
        demand: &Demand<'_>,
        settlement: &Settlement,
        now: u64,
    ) -> SettlementOutcome {
        let &Settlement {
            ticket,
            is_estimate,
            actual,
            is_sent_again,
        } = settlement;
        let (last, counted) = (last_of(ticket, demand.cost), actual.min(MOST_ACTUAL));
        if last.saturating_add(longest(demand.limits)) <= now {
            if is_sent_again {
                return SettlementOutcome::default();
            }
            let charged = self.charge_beyond(demand, counted, now);
            return SettlementOutcome {
                was_open: false,
                dropped: actual - charged,
                changed: charged > 0,
            };
        }
        let long = self.long(demand.limits, now);
        if !long.settle(last, is_estimate) {
            return SettlementOutcome::default();
        }
        // A unit counts in the windows of all limits: where the units have left one of these, they
        // begin anew in all. Those that it has no room for stay where they still count.
        let has_left = demand
            .limits
            .iter()
            .any(|limit| last + limit.window_us() <= now);
        let reserved = counted.min(demand.cost);
        let mut stay = if has_left { 0 } else { reserved };
        if stay < demand.cost {
            long.remove(ticket + stay, last);
        }
        let charged = self.charge_beyond(demand, counted - stay, now);
        if stay + charged < reserved {
            stay = reserved - charged;
            self.long(demand.limits, now)
                .put_back(last + 1 - stay..=last);
        }
        SettlementOutcome {
            was_open: true,
            dropped: actual - stay - charged,
            changed: true,
        }
    }

    /// Keeps the newest ticket: later charges get later ones.
    fn clear(&mut self) {
        *self = Self {
            ticket: self.ticket,
            ..Self::default()
        };
    }
}

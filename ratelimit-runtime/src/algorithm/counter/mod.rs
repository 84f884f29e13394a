//! Algorithms that keep a few numbers per limit: what they have in common.

pub(super) mod arithmetic;
mod per_limit;
pub(super) mod refund;
mod reservations;

use smallvec::SmallVec;

use self::per_limit::PerLimit;
use self::reservations::ReservedCost;
use super::demand::Demand;
use super::state::{AlgorithmState, Committed};
use super::status::{LimitStatus, Standing};
use crate::rule::Limit;

/// `mul_div` and `refill` for scripts: what stands here as [`arithmetic`].
#[cfg(feature = "redis")]
pub(super) const ARITHMETIC: &str = include_str!("arithmetic.lua");

/// What is here, for scripts: what most calls ask, and everything.
#[cfg(feature = "redis")]
pub(super) const QUICK: &str = include_str!("quick.lua");
#[cfg(feature = "redis")]
pub(super) const FULL: &str = include_str!("full.lua");

/// What buckets share of [`QUICK`].
#[cfg(feature = "redis")]
pub(super) const BUCKET: &str = include_str!("bucket.lua");

/// The numbers of one limit, as a value: bringing them to a later time makes another, and only what
/// is written keeps it. So a refusal changes nothing, in memory as in Redis.
pub(crate) trait Counter: Copy + Default {
    /// The numbers at `now`.
    fn at(self, limit: &Limit, now: u64) -> Self;

    /// The numbers as they are kept at `now` where nothing is charged. What drains is kept as it
    /// was at the newest charge: another rate applies from there on.
    #[inline]
    fn kept(self, limit: &Limit, now: u64) -> Self {
        self.at(limit, now)
    }

    /// Where the limit stands; the numbers are at `now`.
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus;

    /// How much of the limit is used, rounded up; the numbers are at `now`.
    fn used(&self, limit: &Limit, now: u64) -> u64;

    /// Charges; the numbers are at `now`.
    fn charge(&mut self, limit: &Limit, cost: u64, now: u64);

    /// Whether charges so far were made at a rate that this limit no longer has, which makes them
    /// void for refunds.
    #[inline]
    fn is_at_another_rate(&self, _: &Limit) -> bool {
        false
    }

    /// Gives back up to `cost` of a charge made at `ticket`, as far as it still counts; the newest
    /// charge was made at `newest`, and the numbers are [`kept`](Self::kept). Says whether anything
    /// of it did.
    fn refund(&mut self, limit: &Limit, cost: u64, ticket: u64, newest: u64, now: u64) -> bool;

    /// How long the numbers matter, which is until the limit is whole again; they are at `now`, or
    /// [`kept`](Self::kept) then.
    fn life(&self, limit: &Limit, now: u64) -> u64;
}

/// The numbers of all limits, in their order, and what is reserved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters<C> {
    each: PerLimit<C>,
    /// The time of the newest charge.
    charged: u64,
    /// The first ticket that can be refunded: charges before were made at another rate.
    first: u64,
    /// Most keys have none.
    reservations: Option<Box<ReservedCost>>,
}

impl<C: Counter> Counters<C> {
    /// The numbers of one limit at `now`.
    #[inline]
    fn brought_to(&self, index: usize, limit: &Limit, now: u64) -> C {
        self.each.get(index).at(limit, now)
    }

    fn brought<'a>(&'a self, limits: &'a [Limit], now: u64) -> impl Iterator<Item = (&'a Limit, C)> {
        limits.iter().enumerate().map(move |(index, limit)| (limit, self.brought_to(index, limit, now)))
    }

    #[cold]
    fn standing_behind_reservations(&self, demand: &Demand<'_>, now: u64) -> Standing {
        let mut standing = Standing::of_none();
        for (index, status) in self.statuses_behind_reservations(demand, now).enumerate() {
            standing.add(index, status);
        }
        standing
    }

    fn statuses_behind_reservations<'a>(
        &'a self,
        demand: &'a Demand<'_>,
        now: u64,
    ) -> impl Iterator<Item = LimitStatus> + 'a {
        let reserved = self.reserved(demand, now).open();
        self.brought(demand.limits, now).map(move |(limit, mut counter)| {
            if reserved > 0 {
                counter.charge(limit, reserved, now);
            }
            counter.status(limit, demand.cost, now)
        })
    }

    /// What is reserved at `now`.
    fn reserved(&self, demand: &Demand<'_>, now: u64) -> ReservedCost {
        // A span takes a division.
        self.reservations.as_ref().map_or_else(ReservedCost::default, |reserved| reserved.at(now, demand.span()))
    }

    /// Keeps these reservations, where nothing is charged.
    fn keep(&mut self, demand: &Demand<'_>, reserved: ReservedCost, now: u64) {
        self.keep_reserved(reserved);
        self.change(demand, |counter, limit| *counter = counter.kept(limit, now));
    }

    fn keep_reserved(&mut self, reserved: ReservedCost) {
        self.reservations = (reserved.open() > 0).then(|| Box::new(reserved));
    }

    /// Charges `cost`, and of `debt` as much as twice the capacity of each limit allows; gives the
    /// most that was left out.
    fn charge_with_debt(
        &mut self,
        demand: &Demand<'_>,
        reserved: ReservedCost,
        (cost, debt): (u64, u64),
        now: u64,
    ) -> Committed {
        let (open, mut dropped) = (reserved.open(), 0);
        self.keep_reserved(reserved);
        self.change_at(demand, now, |counter, limit| {
            let used = counter.used(limit, now) + open + cost;
            let free = demand.most_used(limit).saturating_sub(used);
            counter.charge(limit, cost + debt.min(free), now);
            // That may be nothing.
            *counter = counter.kept(limit, now);
            dropped = dropped.max(debt.saturating_sub(free));
        });
        self.charged = now;
        // Where one limit has no room for any of it, another one may.
        Committed { dropped, charged_now: true }
    }

    /// Brings the numbers to `now` and changes them.
    #[inline]
    fn change_at(&mut self, demand: &Demand<'_>, now: u64, mut change: impl FnMut(&mut C, &Limit)) {
        self.change(demand, |counter, limit| {
            *counter = counter.at(limit, now);
            change(counter, limit);
        });
    }

    #[inline]
    fn change(&mut self, demand: &Demand<'_>, mut change: impl FnMut(&mut C, &Limit)) {
        let mut change = |counter: &mut C, limit| {
            let is_at_another_rate = counter.is_at_another_rate(limit);
            change(counter, limit);
            is_at_another_rate
        };
        let is_any_at_another_rate = match demand.limits {
            [limit] => change(&mut self.each.first, limit),
            limits => {
                let each = self.each.iter_mut(limits.len()).zip(limits);
                each.fold(false, |any, (counter, limit)| change(counter, limit) | any)
            }
        };
        if is_any_at_another_rate {
            self.first = self.charged + 1;
        }
    }
}

impl<C: Counter> AlgorithmState for Counters<C> {
    const KEEPS_TIMES: bool = false;

    #[inline]
    fn standing(&mut self, demand: &Demand<'_>, now: u64) -> Standing {
        if self.reservations.is_some() {
            return self.standing_behind_reservations(demand, now);
        }
        match demand.limits {
            [limit] => Standing { limit: 0, status: self.each.first.at(limit, now).status(limit, demand.cost, now) },
            limits => {
                let mut standing = Standing::of_none();
                for (index, (limit, counter)) in self.brought(limits, now).enumerate() {
                    standing.add(index, counter.status(limit, demand.cost, now));
                }
                standing
            }
        }
    }

    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 1]> {
        self.statuses_behind_reservations(demand, now).collect()
    }

    #[inline]
    fn reserves(&self, demand: &Demand<'_>, now: u64) -> bool {
        self.reservations.is_some() && self.reserved(demand, now).open() > 0
    }

    #[cold]
    fn wait_if_released(&self, demand: &Demand<'_>, now: u64) -> u64 {
        let waits =
            self.brought(demand.limits, now).map(|(limit, counter)| counter.status(limit, demand.cost, now).wait);
        waits.max().unwrap_or(0)
    }

    #[allow(clippy::inline_always, reason = "a call to it would cost as much as what it does for one limit")]
    #[inline(always)]
    fn reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> u64 {
        let reserved = self.reserved(demand, now).open();
        let Some((limit, mut counter)) = demand.limits.get(limit).map(|of| (of, self.brought_to(limit, of, now)))
        else {
            return 0;
        };
        if reserved > 0 {
            // The limit is whole again when it would be if all reservations were committed now.
            counter.charge(limit, reserved, now);
        }
        counter.life(limit, now)
    }

    #[inline]
    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        if self.reservations.is_some() {
            self.keep_reserved(self.reserved(demand, now));
        }
        self.change_at(demand, now, |counter, limit| counter.charge(limit, demand.cost, now));
        self.charged = now;
        now
    }

    fn reserve(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        let mut reserved = self.reserved(demand, now);
        reserved.add(demand.cost, now, demand.span());
        self.keep(demand, reserved, now);
        now
    }

    #[inline]
    fn life(&self, demand: &Demand<'_>, now: u64) -> u64 {
        let own = match demand.limits {
            [limit] => self.each.first.life(limit, now),
            limits => {
                let lives = limits.iter().zip(self.each.iter()).map(|(limit, counter)| counter.life(limit, now));
                lives.max().unwrap_or(0)
            }
        };
        let reserved = self.reservations.as_ref().map_or(0, |reserved| reserved.life(now));
        own.max(reserved)
    }

    #[inline]
    fn life_and_reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> (u64, u64) {
        let life = self.life(demand, now);
        let is_reset = demand.limits.len() == 1 && self.reservations.is_none();
        (life, if is_reset { life } else { self.reset(demand, limit, now) })
    }

    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        let is_at_another_rate =
            demand.limits.iter().zip(self.each.iter()).any(|(limit, counter)| counter.is_at_another_rate(limit));
        if is_at_another_rate || ticket < self.first {
            return false;
        }
        let (mut any, mut refunded) = (false, self.each.clone());
        for (counter, limit) in refunded.iter_mut(demand.limits.len()).zip(demand.limits) {
            *counter = counter.kept(limit, now);
            any |= counter.refund(limit, demand.cost, ticket, self.charged, now);
        }
        if any {
            self.keep_reserved(self.reserved(demand, now));
            self.each = refunded;
        }
        any
    }

    fn commit(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        let mut reserved = self.reserved(demand, now);
        let there = reserved.take(demand.cost, ticket);
        if there {
            self.keep_reserved(reserved);
            self.change_at(demand, now, |counter, limit| counter.charge(limit, demand.cost, now));
            self.charged = now;
        }
        there
    }

    fn commit_actual(&mut self, demand: &Demand<'_>, ticket: u64, actual: u64, now: u64) -> Option<Committed> {
        let mut reserved = self.reserved(demand, now);
        if !reserved.take(demand.cost, ticket) {
            return None;
        }
        let cost = actual.min(demand.cost);
        Some(self.charge_with_debt(demand, reserved, (cost, actual - cost), now))
    }

    fn charge_beyond(&mut self, demand: &Demand<'_>, cost: u64, now: u64) -> Committed {
        let reserved = self.reserved(demand, now);
        self.charge_with_debt(demand, reserved, (0, cost), now)
    }

    fn release(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        let mut reserved = self.reserved(demand, now);
        let there = reserved.take(demand.cost, ticket);
        if there {
            self.keep(demand, reserved, now);
        }
        there
    }

    fn copy(&mut self, _: &Demand<'_>, now: u64) -> (Self, u64) {
        (self.clone(), now)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

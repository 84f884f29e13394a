//! The token and the leaky bucket: `burst` tokens at once, `max` per window evenly.
//!
//! Both are one state: the *level*, the charges that have not drained yet. A charge adds its cost
//! to a level that stays within the burst, and `max` tokens drain in a window. An interval of one
//! window sees at most `burst + max` tokens.
//!
//! # Units
//!
//! A level counts *tokens × microseconds of the window*: a call of cost `n` adds `n · window`, and
//! each microsecond drains `max`. So nothing is rounded, and a level keeps its meaning when `max`
//! or the burst change; the new rate applies from the newest write on.
//!
//! The script counts in doubles, which hold whole numbers up to 2⁵³. Where these units are larger,
//! time goes in *ticks*. A tick is the smallest power of two, in microseconds, with
//!
//! ```text
//! 2 · burst · ⌈window / tick⌉ < 2⁵³   and   ⌈level / tick⌉ < 2⁵³
//! ```
//!
//! where `level` is the stored one: a tick is 1 µs up to a burst of some 52,000 a day, and 32 µs
//! for a million. Windows and levels are rounded up to whole ticks, times down. So no window
//! refills more than `max`, and rounding does not add up. Doubles hold multiples of a power of two
//! exactly: the script counts microseconds, and a level needs no conversion when the tick changes.
//! In memory a level is a number of ticks, stored with their length.

use super::counter::{Counter, Estimates, Open, Past};
use super::state::Settlement;
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const SCRIPT: super::Lua = super::Lua {
    source: include_str!("../../store/redis/scripts/generated/bucket.lua"),
    // The level after the charge, in the ticks of the limit.
    number: |limit, level, now| {
        let bucket = Bucket {
            level,
            ..Bucket::default().in_ticks_of(limit)
        };
        let status = bucket.status(limit, 0, now);
        (status.remaining, status.reset)
    },
};

/// Levels and windows, in ticks, are below this, so that doubles hold them exactly.
const BOUND: u64 = 1 << 53;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The level, in tokens × ticks.
    level: u64,
    /// The length of a tick is two to the power of this, in microseconds.
    tick_bits: u32,
}

impl Bucket {
    /// The limit's window, in ticks.
    #[inline]
    fn window(&self, limit: &Limit) -> u64 {
        (limit.window_us() + ((1 << self.tick_bits) - 1)) >> self.tick_bits
    }

    /// `tokens` as a level.
    #[inline]
    fn units(&self, tokens: u64, limit: &Limit) -> u64 {
        tokens.saturating_mul(self.window(limit))
    }

    /// The level that drains between two times.
    #[inline]
    fn drained(&self, limit: &Limit, from: u64, to: u64) -> u64 {
        let ticks = (to >> self.tick_bits).saturating_sub(from >> self.tick_bits);
        limit.max().saturating_mul(ticks)
    }

    /// The microseconds that `level` takes to drain from the start of a tick; `u64::MAX` at most,
    /// which a level charged by a far higher `max` may exceed.
    #[inline]
    fn time_to_drain(&self, level: u64, limit: &Limit) -> u64 {
        let ticks = level.div_ceil(limit.max().max(1));
        ticks.saturating_mul(1 << self.tick_bits)
    }

    /// The microseconds that `level` takes to drain, from `now` on.
    #[inline]
    fn wait(&self, level: u64, limit: &Limit, now: u64) -> u64 {
        if level == 0 {
            0
        } else {
            self.time_to_drain(level, limit) - now % (1 << self.tick_bits)
        }
    }

    #[inline]
    fn fits(&self, limit: &Limit) -> bool {
        self.units(2 * limit.capacity(), limit) < BOUND && self.level < BOUND
    }

    /// [`take`](Counter::take), in ticks of any length.
    #[inline]
    fn take_in_its_ticks(
        self,
        limit: &Limit,
        cost: u64,
        newest: u64,
        now: u64,
    ) -> (Self, LimitStatus) {
        let mut bucket = self.at(limit, newest, now);
        let mut status = bucket.status(limit, cost, now);
        if status.wait == 0 {
            bucket.charge(limit, cost);
            status.reset = bucket.life(limit, now);
        }
        (bucket, status)
    }

    /// The bucket in the ticks that its level and the limit need.
    #[inline]
    fn in_ticks_of(self, limit: &Limit) -> Self {
        if self.tick_bits == 0 && self.fits(limit) {
            self
        } else {
            self.in_longer_ticks(limit)
        }
    }

    /// The bucket in ticks longer than a microsecond: the power of two that brings level and window
    /// below [`BOUND`], or twice that, where rounding up reaches it.
    #[cold]
    fn in_longer_ticks(self, limit: &Limit) -> Self {
        let level = u128::from(self.level) << self.tick_bits;
        let full = u128::from(2 * limit.capacity()) * u128::from(limit.window_us());
        let tick_bits = (full.max(level) / u128::from(BOUND)).checked_ilog2();
        let tick_bits = tick_bits.map_or(0, |bits| bits + 1);
        let in_ticks = |tick_bits| Self {
            level: u64::try_from(level.div_ceil(1_u128 << tick_bits)).unwrap_or(u64::MAX),
            tick_bits,
        };
        let bucket = in_ticks(tick_bits);
        if bucket.fits(limit) {
            bucket
        } else {
            in_ticks(tick_bits + 1)
        }
    }

    /// A level in microseconds instead of ticks.
    fn in_micros(&self, level: u64) -> u128 {
        u128::from(level) << self.tick_bits
    }

    /// The microseconds for which a reservation counts: a full bucket drains in them. Under a `max`
    /// of 0, which drains nothing, it is a window.
    fn period(&self, limit: &Limit) -> u64 {
        self.time_to_drain(self.units(limit.capacity().max(1), limit), limit)
    }

    /// Gives back the part of an estimate that the call did not cost.
    ///
    /// Without that part the level would be lower by it, less the drain that an empty bucket would
    /// have missed. After the newest write nothing was added, so the level bounds the rest. After
    /// an earlier one the bucket might have been empty throughout: withholding all that has drained
    /// never gives back too much.
    fn give_back(&mut self, open: &mut Open, limit: &Limit, past: &Past) {
        let drained = match past.settlement.ticket {
            ticket if ticket < past.newest => self.drained(limit, ticket, past.now),
            ticket if ticket == past.newest => 0,
            // The ticket is of an earlier life of the key: the clock has stepped back since.
            _ => return,
        };
        let left = self.units(past.cost, limit).saturating_sub(drained);
        let back = self.units(past.cost.saturating_sub(past.settlement.actual), limit);
        self.level = self.level.saturating_sub(back.min(left));
        self.end_estimate(open, limit, past);
    }

    /// Takes an estimate out of the open ones, and bounds the level by what is settled and all of
    /// those.
    ///
    /// Were each call charged what it did cost when it ends, and its estimate kept until then, the
    /// level would be that bound. No bucket that charges calls when they begin is fuller.
    fn end_estimate(&mut self, open: &mut Open, limit: &Limit, past: &Past) {
        let Settlement { ticket, actual, .. } = past.settlement;
        let Some(estimates) = &mut open.estimates else {
            return;
        };
        let sum = if ticket >= estimates.since {
            &mut estimates.current
        } else if ticket.saturating_add(self.period(limit)) >= estimates.since {
            &mut estimates.previous
        } else {
            return;
        };
        if past.settlement.is_sent_again || !past.take(sum) {
            return;
        }
        estimates.settled += self.in_micros(self.units(actual.min(past.cost), limit));
        let most = estimates.settled + self.in_micros(self.units(estimates.sum(), limit));
        let most = u64::try_from(most >> self.tick_bits).unwrap_or(u64::MAX);
        self.level = self.level.min(most);
        if estimates.sum() == 0 {
            open.estimates = None;
        }
    }

    /// The open estimates at `now`, drained as far as the level, which is at `now`. A forgotten
    /// estimate counts as the actual cost of its call.
    fn estimates_at(&self, open: Estimates, limit: &Limit, newest: u64, now: u64) -> Estimates {
        let period = self.period(limit);
        let settled = u64::try_from(open.settled.div_ceil(1 << self.tick_bits));
        let settled = settled.unwrap_or(u64::MAX);
        let settled = settled.saturating_sub(self.drained(limit, newest, now));
        let settled = self.in_micros(settled.min(self.level));
        match now.saturating_sub(open.since) / period {
            0 if self.level > 0 => Estimates { settled, ..open },
            1 if self.level > 0 => Estimates {
                since: open.since.saturating_add(period),
                current: 0,
                previous: open.current,
                settled: settled + self.in_micros(self.units(open.previous, limit)),
            },
            _ => Estimates::default(),
        }
    }
}

impl Counter for Bucket {
    #[inline]
    fn at(self, limit: &Limit, newest: u64, now: u64) -> Self {
        let bucket = self.in_ticks_of(limit);
        Self {
            level: bucket
                .level
                .saturating_sub(bucket.drained(limit, newest, now)),
            ..bucket
        }
    }

    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost a quarter of what it does"
    )]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let full = self.units(limit.capacity(), limit);
        let excess = self
            .level
            .saturating_add(self.units(cost, limit))
            .saturating_sub(full);
        let remaining = full.saturating_sub(self.level) / self.window(limit);
        let wait = self.wait(excess, limit, now);
        LimitStatus::new(wait, remaining, self.life(limit, now))
    }

    /// In ticks of a microsecond nothing here overflows or is rounded.
    #[allow(clippy::inline_always, reason = "as that of `status`")]
    #[inline(always)]
    fn take(self, limit: &Limit, cost: u64, newest: u64, now: u64) -> (Self, LimitStatus) {
        let (capacity, window, max) = (limit.capacity(), limit.window_us(), limit.max().max(1));
        let full = capacity.saturating_mul(window);
        if self.tick_bits > 0 || self.level >= BOUND || full >= BOUND / 2 || cost > capacity {
            return self.take_in_its_ticks(limit, cost, newest, now);
        }
        let level = self
            .level
            .saturating_sub(max.saturating_mul(now.saturating_sub(newest)));
        let remaining = full.saturating_sub(level) / window;
        let needed = level + cost * window;
        let (level, wait) = if needed > full {
            (level, (needed - full).div_ceil(max))
        } else {
            (needed, 0)
        };
        let bucket = Self {
            level,
            tick_bits: 0,
        };
        (
            bucket,
            LimitStatus::new(wait, remaining, level.div_ceil(max)),
        )
    }

    fn used(&self, limit: &Limit, _: u64) -> u64 {
        self.level.div_ceil(self.window(limit))
    }

    #[inline]
    fn charge(&mut self, limit: &Limit, cost: u64) {
        self.level = self.level.saturating_add(self.units(cost, limit));
    }

    #[inline]
    fn life(&self, limit: &Limit, now: u64) -> u64 {
        self.wait(self.level, limit, now)
    }

    /// A reservation by `count` does not drain: it counts in full until it is settled, or is
    /// forgotten after at most two periods.
    fn open_at(&self, mut open: Open, limit: &Limit, newest: u64, now: u64) -> Open {
        let (period, estimates) = (self.period(limit), open.estimates.take());
        let by_count = match now.saturating_sub(open.since) / period {
            0 => open,
            1 => open.rolled(period),
            _ => Open::default(),
        };
        Open {
            estimates: estimates
                .map(|open| self.estimates_at(*open, limit, newest, now))
                .filter(|open| open.sum() > 0)
                .map(Box::new),
            ..by_count
        }
    }

    fn life_of_open(&self, open: &Open, limit: &Limit, now: u64) -> u64 {
        let periods = match (open.current, open.previous) {
            (0, 0) => return 0,
            (0, _) => 1,
            _ => 2,
        };
        open.since
            .saturating_add(self.period(limit).saturating_mul(periods))
            .saturating_sub(now)
    }

    fn with(mut self, open: &Open, limit: &Limit) -> Self {
        self.charge(limit, open.sum());
        self
    }

    fn without(self, _: &Open) -> Self {
        self
    }

    fn charge_beside(&mut self, open: &mut Open, limit: &Limit, cost: u64) {
        self.charge(limit, cost);
        if let Some(estimates) = &mut open.estimates {
            estimates.settled += self.in_micros(self.units(cost, limit));
        }
    }

    fn estimate(&mut self, open: &mut Open, limit: &Limit, cost: u64, now: u64) {
        let first = || {
            Box::new(Estimates {
                since: now,
                settled: self.in_micros(self.level),
                ..Estimates::default()
            })
        };
        open.estimates.get_or_insert_with(first).current += cost;
        self.charge(limit, cost);
    }

    fn reserve(&mut self, open: &mut Open, _: &Limit, cost: u64, now: u64) {
        let since = if open.sum() == 0 { now } else { open.since };
        open.since = since;
        open.current += cost;
    }

    fn settle(&mut self, open: &mut Open, limit: &Limit, past: &Past) -> Option<(bool, u64)> {
        let Settlement {
            ticket,
            is_estimate,
            actual,
            ..
        } = past.settlement;
        let period = self.period(limit);
        let is_over = ticket.saturating_add(period) <= past.now;
        if is_estimate && !is_over {
            self.give_back(open, limit, past);
            return Some((true, past.excess()));
        }
        let was_open = !is_estimate
            && if ticket >= open.since {
                past.take(&mut open.current)
            } else {
                ticket.saturating_add(period) >= open.since && past.take(&mut open.previous)
            };
        match (was_open, is_over) {
            // Nothing of the reservation has drained.
            (true, _) => Some((true, actual)),
            (false, true) => None,
            (false, false) => Some((false, 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The ticks as the head of this file says them.
    fn smallest(bucket: Bucket, limit: &Limit) -> Option<Bucket> {
        let level = u128::from(bucket.level) << bucket.tick_bits;
        (0..=60)
            .map(|tick_bits| Bucket {
                level: u64::try_from(level.div_ceil(1_u128 << tick_bits)).unwrap_or(u64::MAX),
                tick_bits,
            })
            .find(|bucket| bucket.fits(limit))
    }

    #[test]
    fn ticks_are_the_smallest_in_which_all_is_exact() {
        let mut random = 1_u64;
        // Numbers of any length, every other one beside a power of two.
        let mut of_bits = |most: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let power = 1 << ((random >> 32) % most + 1);
            if random >> 63 == 0 {
                (random >> 11) % power + 1
            } else {
                power - 2 + (random >> 40) % 5
            }
        };
        for _ in 0..200_000 {
            let window = of_bits(44).clamp(1_000, 366 * 86_400_000_000);
            let limit = Limit::new(Limit::MAX_COUNT, Duration::from_micros(window));
            let limit = limit.with_burst(of_bits(52).max(1));
            let (level, tick_bits) = (of_bits(53), of_bits(5).max(1).ilog2());
            for bucket in [Bucket { level, tick_bits }, Bucket::default()] {
                let found = Some(bucket.in_ticks_of(&limit));
                assert_eq!(found, smallest(bucket, &limit), "{limit:?} {bucket:?}");
            }
        }
    }
}

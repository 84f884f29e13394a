//! The sliding counter: two counters, the previous window's weighted by its part that still
//! overlaps.
//!
//! The estimate `⌈previous · (window − elapsed) / window⌉ + current` assumes that the previous
//! window's calls were spread evenly. Where they were not, up to `2·max − 1` pass in an interval of
//! one window, or calls are refused that an exact log would admit. Memory is O(1).

use super::counter::{Counter, Open, Past};
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const SCRIPT: super::Lua = super::Lua {
    source: include_str!("../../store/redis/scripts/generated/sliding_counter.lua"),
    // The number is the rest of `max`, in a window that begins now.
    number: |limit, remaining, _| (remaining, 2 * limit.window_us()),
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SlidingCounter {
    /// The start of the current window.
    start: u64,
    /// The cost charged and reserved in the current window.
    current: u64,
    /// The cost charged and reserved in the previous window.
    previous: u64,
}

impl SlidingCounter {
    /// The used cost, rounded up, `elapsed` microseconds into the window.
    fn weighted(&self, window: u64, elapsed: u64) -> u64 {
        let (share, rest) = mul_div(self.previous, window - elapsed, window);
        share + u64::from(rest > 0) + self.current
    }
}

/// `⌊a · b / divisor⌋` and the remainder.
#[inline]
fn mul_div(a: u64, b: u64, divisor: u64) -> (u64, u64) {
    // Most products are small, and a division of 64 bits is several times faster.
    if let Some(product) = a.checked_mul(b) {
        return (product / divisor, product % divisor);
    }
    wide_mul_div(a, b, divisor)
}

#[cold]
fn wide_mul_div(a: u64, b: u64, divisor: u64) -> (u64, u64) {
    debug_assert!(
        a.min(b) <= divisor,
        "one of the factors is a share of the divisor"
    );
    let (product, divisor) = (u128::from(a) * u128::from(b), u128::from(divisor));
    let narrow = |number| u64::try_from(number).unwrap_or(u64::MAX);
    (narrow(product / divisor), narrow(product % divisor))
}

/// The microseconds of a window until the weight of `previous` is at most `free`.
fn sunk_to(free: u64, previous: u64, window: u64) -> u64 {
    if previous <= free {
        0
    } else {
        window - mul_div(free, window, previous).0
    }
}

impl Counter for SlidingCounter {
    #[inline]
    fn at(self, limit: &Limit, _: u64, now: u64) -> Self {
        let (window, elapsed) = (limit.window_us(), now.saturating_sub(self.start));
        if elapsed < window {
            self
        } else if elapsed < 2 * window && self.current > 0 {
            Self {
                start: self.start + window,
                current: 0,
                previous: self.current,
            }
        } else {
            // Where nothing counts, a window begins now.
            Self {
                start: now,
                current: 0,
                previous: 0,
            }
        }
    }

    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost a quarter of what it does"
    )]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let window = limit.window_us();
        let elapsed = now - self.start;
        let used = self.weighted(window, elapsed);
        let wait = if used + cost <= limit.max() {
            0
        } else if let Some(free) = limit.max().checked_sub(self.current + cost) {
            // The previous window alone counts.
            sunk_to(free, self.previous, window) - elapsed
        } else {
            // The current window has to become the previous one first.
            window - elapsed + sunk_to(limit.max().saturating_sub(cost), self.current, window)
        };
        let remaining = limit.max().saturating_sub(used);
        LimitStatus::new(wait, remaining, self.life(limit, now))
    }

    fn used(&self, limit: &Limit, now: u64) -> u64 {
        self.weighted(limit.window_us(), now - self.start)
    }

    #[inline]
    fn charge(&mut self, _: &Limit, cost: u64) {
        self.current += cost;
    }

    #[inline]
    fn life(&self, limit: &Limit, now: u64) -> u64 {
        match (self.current, self.previous) {
            (0, 0) => 0,
            (0, _) => limit.window_us() - (now - self.start),
            _ => 2 * limit.window_us() - (now - self.start),
        }
    }

    fn open_at(&self, open: Open, limit: &Limit, _: u64, _: u64) -> Open {
        if open.since == self.start {
            open
        } else if open.since + limit.window_us() == self.start {
            open.rolled(limit.window_us())
        } else {
            Open::default()
        }
    }

    fn without(self, open: &Open) -> Self {
        Self {
            current: self.current - open.current,
            previous: self.previous - open.previous,
            ..self
        }
    }

    fn reserve(&mut self, open: &mut Open, limit: &Limit, cost: u64, _: u64) {
        self.charge(limit, cost);
        open.since = self.start;
        open.current += cost;
    }

    fn settle(&mut self, open: &mut Open, limit: &Limit, past: &Past) -> Option<(bool, u64)> {
        let ticket = past.settlement.ticket;
        if self.current + self.previous == 0
            || ticket.saturating_add(limit.window_us()) < self.start
        {
            None
        } else if ticket >= self.start {
            Some(past.settle(&mut self.current, &mut open.current))
        } else {
            Some(past.settle(&mut self.previous, &mut open.previous))
        }
    }
}

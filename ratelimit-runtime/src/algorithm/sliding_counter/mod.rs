//! The sliding counter: two counters, the last window's weighted by how much of it still overlaps.
//!
//! The estimate `⌈previous · (window − elapsed) / window⌉ + current` assumes that the previous
//! window's calls were spread evenly. Where they were not, up to `2·max − 1` pass in an interval of
//! one window, or calls are refused that an exact log would admit. Memory is O(1).

use super::counter::Counter;
use super::counter::arithmetic::{mul_div, mul_div_up};
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const LUA: super::Lua = super::Lua {
    quick: &[include_str!("quick.lua"), super::counter::QUICK],
    full: &[super::counter::ARITHMETIC, super::counter::FULL, include_str!("full.lua")],
};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SlidingCounter {
    /// When the current window began.
    start: u64,
    current: u64,
    previous: u64,
}

impl SlidingCounter {
    /// What counts at `elapsed` into the window.
    fn weighted(&self, window: u64, elapsed: u64) -> u64 {
        mul_div_up(self.previous, window - elapsed, window) + self.current
    }

    /// Where nothing counts, the next charge begins a window, whether the state is over by then or
    /// is kept for a reservation.
    fn without_start_if_unused(self) -> Self {
        if (self.current, self.previous) == (0, 0) { Self::default() } else { self }
    }
}

/// How far into a window the weight of `previous` has sunk to `free`.
fn sunk_to(free: u64, previous: u64, window: u64) -> u64 {
    if previous <= free { 0 } else { window - mul_div(free, window, previous) }
}

impl Counter for SlidingCounter {
    #[inline]
    fn at(self, limit: &Limit, now: u64) -> Self {
        let window = limit.window_us();
        match now.saturating_sub(self.start) / window {
            0 => self,
            1 if self.current > 0 => Self { start: self.start + window, current: 0, previous: self.current },
            // Where nothing counts, a window begins now.
            _ => Self { start: now, current: 0, previous: 0 },
        }
    }

    fn kept(self, limit: &Limit, now: u64) -> Self {
        self.at(limit, now).without_start_if_unused()
    }

    #[allow(clippy::inline_always, reason = "a call to it would cost a quarter of what it does")]
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
        LimitStatus { wait, remaining: limit.max().saturating_sub(used) }
    }

    fn used(&self, limit: &Limit, now: u64) -> u64 {
        self.weighted(limit.window_us(), now - self.start)
    }

    #[inline]
    fn charge(&mut self, _: &Limit, cost: u64, _: u64) {
        self.current += cost;
    }

    fn refund(&mut self, limit: &Limit, cost: u64, ticket: u64, _: u64, _: u64) -> bool {
        let counter = if ticket >= self.start {
            &mut self.current
        } else if ticket + limit.window_us() >= self.start {
            &mut self.previous
        } else {
            return false;
        };
        let counts = *counter > 0;
        *counter = counter.saturating_sub(cost);
        *self = self.without_start_if_unused();
        counts
    }

    #[inline]
    fn life(&self, limit: &Limit, now: u64) -> u64 {
        match (self.current, self.previous) {
            (0, 0) => 0,
            (0, _) => limit.window_us() - (now - self.start),
            _ => 2 * limit.window_us() - (now - self.start),
        }
    }
}

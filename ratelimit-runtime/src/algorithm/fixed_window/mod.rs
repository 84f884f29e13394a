//! The fixed window: one counter, which the first charge starts and `window` ends.
//!
//! A window begins with the first charge that finds none, not at the full minute, so that clients
//! do not all come back at once. Across an edge it admits up to `2·max` in an interval of one
//! window. A calendar window begins and ends with its hour, day, week, month or year.

use super::counter::Counter;
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const LUA: super::Lua = super::Lua {
    quick: &[include_str!("quick.lua"), super::counter::QUICK],
    full: &[super::counter::FULL, include_str!("full.lua")],
};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FixedWindow {
    end: u64,
    used: u64,
}

impl Counter for FixedWindow {
    #[inline]
    fn at(self, limit: &Limit, now: u64) -> Self {
        if self.used == 0 || now >= self.end { Self { end: limit.end_of_window(now), used: 0 } } else { self }
    }

    #[allow(clippy::inline_always, reason = "a call to it would cost a quarter of what it does")]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let wait = if self.used + cost > limit.max() { self.end - now } else { 0 };
        LimitStatus { wait, remaining: limit.max().saturating_sub(self.used) }
    }

    fn used(&self, _: &Limit, _: u64) -> u64 {
        self.used
    }

    #[inline]
    fn charge(&mut self, _: &Limit, cost: u64, _: u64) {
        self.used += cost;
    }

    fn refund(&mut self, limit: &Limit, cost: u64, ticket: u64, _: u64, _: u64) -> bool {
        let counts = self.used > 0 && ticket >= limit.start_of_window(self.end);
        if counts {
            self.used = self.used.saturating_sub(cost);
        }
        counts
    }

    #[inline]
    fn life(&self, _: &Limit, now: u64) -> u64 {
        if self.used == 0 { 0 } else { self.end - now }
    }
}

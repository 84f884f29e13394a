//! The fixed window: one counter, which the first call starts and `window` ends.
//!
//! A window begins with the first call that finds none, not at the full minute, so that clients do not all come back
//! at once. Across an edge it admits up to `2·max` in an interval of one window.

use super::Standing;
use super::counters::Counter;
use crate::rule::Limit;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FixedWindow {
    start: u64,
    used: u64,
}

impl Counter for FixedWindow {
    fn at(self, limit: &Limit, now: u64) -> Self {
        if self.used == 0 || now >= self.start + limit.window_us() { Self { start: now, used: 0 } } else { self }
    }

    fn standing(&self, limit: &Limit, cost: u64, now: u64) -> Standing {
        let left = self.start + limit.window_us() - now;
        Standing {
            wait: if self.used + cost > limit.max() { left } else { 0 },
            remaining: limit.max().saturating_sub(self.used),
            reset: if self.used == 0 { 0 } else { left },
        }
    }

    fn charge(&mut self, _: &Limit, cost: u64, _: u64) {
        self.used += cost;
    }

    fn refund(&mut self, _: &Limit, cost: u64, then: u64) -> bool {
        let counts = then >= self.start && self.used > 0;
        if counts {
            self.used = self.used.saturating_sub(cost);
        }
        counts
    }

    fn life(&self, limit: &Limit, now: u64) -> u64 {
        self.start + limit.window_us() - now
    }
}

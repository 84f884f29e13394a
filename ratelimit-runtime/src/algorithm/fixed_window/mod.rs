//! The fixed window: one counter, which the first charge starts and `window` ends.
//!
//! A window begins with the first charge that finds none, not at the full minute, so that clients
//! do not all retry at once. Across an edge it admits up to `2·max` in an interval of one window. A
//! calendar window begins and ends with its hour, day, week, month or year.

use super::counter::{Counter, Open, Past};
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const SCRIPT: super::Lua = super::Lua {
    source: include_str!("../../store/redis/scripts/generated/fixed_window.lua"),
    // The number is the rest of `max`, in a window by the clock that begins now.
    number: |limit, remaining, _| (remaining, limit.window_us()),
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FixedWindow {
    /// The time of the first charge: earlier charges and reservations are of other windows.
    begun: u64,
    end: u64,
    /// The cost charged and reserved in this window.
    used: u64,
}

impl Counter for FixedWindow {
    #[inline]
    fn at(self, limit: &Limit, _: u64, now: u64) -> Self {
        if self.used == 0 || now >= self.end {
            return Self {
                begun: now,
                end: limit.end_of_window(now),
                used: 0,
            };
        }
        self
    }

    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost a quarter of what it does"
    )]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let wait = if self.used + cost > limit.max() {
            self.end - now
        } else {
            0
        };
        let remaining = limit.max().saturating_sub(self.used);
        LimitStatus::new(wait, remaining, self.life(limit, now))
    }

    fn used(&self, _: &Limit, _: u64) -> u64 {
        self.used
    }

    #[inline]
    fn charge(&mut self, _: &Limit, cost: u64) {
        self.used += cost;
    }

    #[inline]
    fn life(&self, _: &Limit, now: u64) -> u64 {
        if self.used == 0 { 0 } else { self.end - now }
    }

    fn open_at(&self, open: Open, _: &Limit, _: u64, _: u64) -> Open {
        if open.since == self.begun {
            open
        } else {
            Open::default()
        }
    }

    fn without(self, open: &Open) -> Self {
        Self {
            used: self.used - open.current,
            ..self
        }
    }

    fn reserve(&mut self, open: &mut Open, limit: &Limit, cost: u64, _: u64) {
        self.charge(limit, cost);
        *open = Open {
            since: self.begun,
            current: open.current + cost,
            ..Open::default()
        };
    }

    fn settle(&mut self, open: &mut Open, _: &Limit, past: &Past) -> Option<(bool, u64)> {
        let is_of_this = self.used > 0 && (self.begun..self.end).contains(&past.settlement.ticket);
        is_of_this.then(|| past.settle(&mut self.used, &mut open.current))
    }
}

//! The leaky bucket as a meter, by the generic cell rate algorithm (ITU-T I.371).
//!
//! It keeps the *theoretical arrival time*: when the bucket runs empty. Each unit of cost moves it by `window / max`;
//! a call is admitted if that leaves it at most `burst · window / max` ahead of now. The time is kept in
//! microseconds and `max`-ths of one, so that rates that do not divide lose nothing. An interval of one window sees
//! at most `burst + max − 1`.

use super::cells::Cell;
use super::{Standing, mul_div_rem, token_bucket};
use crate::rule::Limit;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeakyBucket {
    arrival: u64,
    /// In `parts`-ths of a microsecond.
    rest: u64,
    /// The `max` that `rest` was counted in.
    parts: u64,
}

impl LeakyBucket {
    /// The backlog as tokens and `window`-ths of one.
    fn backlog(&self, limit: &Limit, now: u64) -> (u64, u64) {
        let window = limit.window_us();
        let (tokens, units) = mul_div_rem(self.arrival.saturating_sub(now), limit.max(), window);
        let units = units + self.rest % window;
        (tokens + self.rest / window + units / window, units % window)
    }
}

impl Cell for LeakyBucket {
    fn at(self, limit: &Limit, now: u64) -> Self {
        if self.arrival < now {
            Self { arrival: now, rest: 0, parts: limit.max() }
        } else if self.parts != limit.max() {
            // Another rate counts in other parts: up to the next microsecond, which never admits more.
            Self { arrival: self.arrival + u64::from(self.rest > 0), rest: 0, parts: limit.max() }
        } else {
            self
        }
    }

    fn standing(&self, limit: &Limit, cost: u64, now: u64) -> Standing {
        let (tokens, units) = self.backlog(limit, now);
        token_bucket::standing(limit, tokens, units, cost)
    }

    fn charge(&mut self, limit: &Limit, cost: u64, _: u64) {
        let parts = limit.max().max(1);
        let (time, rest) = mul_div_rem(cost, limit.window_us(), parts);
        self.arrival += time + (self.rest + rest) / parts;
        self.rest = (self.rest + rest) % parts;
    }

    fn life(&self, _: &Limit, now: u64) -> u64 {
        self.arrival + u64::from(self.rest > 0) - now
    }
}

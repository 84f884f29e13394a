//! The leaky bucket as a meter, by the generic counter rate algorithm (ITU-T I.371).
//!
//! It keeps the *theoretical arrival time*: when the bucket runs empty. Each unit of cost moves it by `window / max`;
//! a call is admitted if that leaves it at most `burst · window / max` ahead of now. The time is kept in
//! microseconds and `max`-ths of one, so that rates that do not divide lose nothing. An interval of one window sees
//! at most `burst + max − 1`.

use super::counters::Counter;
use super::{Standing, mul_div_rem};
use crate::rule::Limit;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeakyBucket {
    arrival: u64,
    /// In `parts`-ths of a microsecond.
    rest: u64,
    /// The `max` that `rest` was counted in.
    parts: u64,
    /// The time that the state was last brought to.
    brought_to: u64,
}

impl Counter for LeakyBucket {
    fn at(self, limit: &Limit, now: u64) -> Self {
        let parts = limit.max();
        let (arrival, rest) = if self.arrival < now {
            (now, 0)
        } else if self.parts != parts {
            // Another rate counts in other parts: up to the next microsecond, which never admits more.
            (self.arrival + u64::from(self.rest > 0), 0)
        } else {
            (self.arrival, self.rest)
        };
        Self { arrival, rest, parts, brought_to: now }
    }

    fn standing(&self, limit: &Limit, cost: u64, now: u64) -> Standing {
        let backlog = self.arrival - now;
        let (time, rest) = mul_div_rem(limit.capacity().saturating_sub(cost), limit.window_us(), limit.max());
        // The backlog in tokens, rounded up.
        let (tokens, units) = mul_div_rem(backlog, limit.max(), limit.window_us());
        let tokens = tokens.saturating_add((units + self.rest).div_ceil(limit.window_us()));
        Standing {
            wait: (backlog + u64::from(self.rest > rest)).saturating_sub(time),
            remaining: limit.capacity().saturating_sub(tokens),
            reset: backlog + u64::from(self.rest > 0),
        }
    }

    fn charge(&mut self, limit: &Limit, cost: u64, _: u64) {
        let parts = limit.max().max(1);
        let (time, rest) = mul_div_rem(cost, limit.window_us(), parts);
        self.arrival += time + (self.rest + rest) / parts;
        self.rest = (self.rest + rest) % parts;
    }

    fn refund(&mut self, limit: &Limit, cost: u64, then: u64) -> bool {
        let parts = limit.max().max(1);
        let (time, rest) = mul_div_rem(cost, limit.window_us(), parts);
        // The state is at the present: the arrival is not before it, and the time since the charge has paid for part.
        let passed = self.brought_to.saturating_sub(then);
        let backlog = self.arrival - self.brought_to;
        if (time, rest) <= (passed, 0) || (backlog, self.rest) == (0, 0) {
            return false;
        }
        let time = time - passed;
        if (time, rest) >= (backlog, self.rest) {
            (self.arrival, self.rest) = (self.brought_to, 0);
        } else {
            let borrow = u64::from(rest > self.rest);
            self.arrival -= time + borrow;
            self.rest = self.rest + borrow * parts - rest;
        }
        true
    }

    fn life(&self, _: &Limit, now: u64) -> u64 {
        self.arrival + u64::from(self.rest > 0) - now
    }
}

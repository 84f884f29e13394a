//! The leaky bucket as a meter, by the generic cell rate algorithm (ITU-T I.371).
//!
//! It keeps the *theoretical arrival time*: when the bucket runs empty. Each unit of cost moves it
//! by `window / max`; a call is admitted if that leaves it at most `burst · window / max` ahead of
//! now. The time is kept in microseconds and `max`-ths of one, so that rates that do not divide
//! lose nothing. An interval of one window sees at most `burst + max − 1`.

use super::counter::Counter;
use super::counter::arithmetic::{less, mul_div_rem};
use super::counter::refund::refundable;
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const LUA: super::Lua = super::Lua {
    quick: &[include_str!("quick.lua"), super::counter::BUCKET, super::counter::QUICK],
    full: &[super::counter::ARITHMETIC, super::counter::FULL, include_str!("full.lua")],
};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeakyBucket {
    arrival: u64,
    /// In `max`-ths of a microsecond.
    rest: u64,
    /// The limit's, when this was written.
    max: u64,
}

/// A backlog in tokens, rounded up.
#[inline]
fn tokens(backlog: u64, rest: u64, limit: &Limit) -> u64 {
    let (tokens, units) = mul_div_rem(backlog, limit.max(), limit.window_us());
    tokens.saturating_add((units + rest).div_ceil(limit.window_us()))
}

impl Counter for LeakyBucket {
    #[inline]
    fn at(self, limit: &Limit, now: u64) -> Self {
        let max = limit.max();
        if self.arrival < now {
            Self { arrival: now, rest: 0, max }
        } else if self.max == max {
            self
        } else {
            // Another rate counts in other parts: the next whole microsecond never admits more.
            Self { arrival: self.arrival + u64::from(self.rest > 0), rest: 0, max }
        }
    }

    #[allow(clippy::inline_always, reason = "a call to it would cost a quarter of what it does")]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let backlog = self.arrival - now;
        let (time, rest) = mul_div_rem(limit.capacity().saturating_sub(cost), limit.window_us(), limit.max());
        let wait = (backlog + u64::from(self.rest > rest)).saturating_sub(time);
        // Nothing remains where not even a cost of 1 has room: that spares the division.
        let remaining = match (wait, cost) {
            (1.., 1) => 0,
            _ => limit.capacity().saturating_sub(tokens(backlog, self.rest, limit)),
        };
        LimitStatus { wait, remaining }
    }

    fn used(&self, limit: &Limit, now: u64) -> u64 {
        tokens(self.arrival - now, self.rest, limit)
    }

    #[inline]
    fn charge(&mut self, limit: &Limit, cost: u64, _: u64) {
        let (time, rest) = mul_div_rem(cost, limit.window_us(), limit.max());
        let parts = limit.max().max(1);
        self.arrival += time + (self.rest + rest) / parts;
        self.rest = (self.rest + rest) % parts;
    }

    #[inline]
    fn is_at_another_rate(&self, limit: &Limit) -> bool {
        self.max != limit.max()
    }

    fn refund(&mut self, limit: &Limit, cost: u64, ticket: u64, newest: u64, now: u64) -> bool {
        let parts = limit.max();
        let charged = mul_div_rem(cost, limit.window_us(), parts);
        let backlog = (self.arrival - now, self.rest);
        let amount = refundable(charged, (now.saturating_sub(ticket), 0), parts, ticket, newest).min(backlog);
        let (left, rest) = less(backlog, amount, parts);
        (self.arrival, self.rest) = (now + left, rest);
        amount > (0, 0)
    }

    #[inline]
    fn life(&self, _: &Limit, now: u64) -> u64 {
        self.arrival + u64::from(self.rest > 0) - now
    }
}

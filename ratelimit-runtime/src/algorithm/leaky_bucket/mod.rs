//! The leaky bucket as a meter, by the generic cell rate algorithm (ITU-T I.371).
//!
//! It keeps the *theoretical arrival time*: when the bucket runs empty. Each unit of cost moves it
//! by `window / max`; a call is admitted if that leaves it at most `burst · window / max` ahead of
//! now. The time is kept in microseconds and `max`-ths of one, so that rates that do not divide
//! lose nothing. An interval of one window sees at most `burst + max − 1`.

use super::counter::Counter;
use super::counter::arithmetic::mul_div_rem;
use super::counter::low_water::{LowWater, less};
use super::status::LimitStatus;
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const LUA: super::Lua = super::Lua {
    quick: &[include_str!("quick.lua")],
    full: &[super::counter::ARITHMETIC, super::counter::FULL, include_str!("full.lua")],
};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeakyBucket {
    arrival: u64,
    /// In `parts`-ths of a microsecond.
    rest: u64,
    /// The `max` of the newest charge, which `rest` is counted in.
    parts: u64,
    /// Of the time until it runs empty, as far as all charges since had the same `max`.
    low_water: LowWater,
}

impl LeakyBucket {
    /// The arrival time under this `max`. Another rate counts in other parts: the next whole
    /// microsecond never admits more.
    #[inline]
    fn under(&self, max: u64) -> (u64, u64) {
        if self.parts == max { (self.arrival, self.rest) } else { (self.arrival + u64::from(self.rest > 0), 0) }
    }
}

/// A backlog in tokens, rounded up.
#[inline]
fn tokens(backlog: u64, rest: u64, limit: &Limit) -> u64 {
    let (tokens, units) = mul_div_rem(backlog, limit.max(), limit.window_us());
    tokens.saturating_add((units + rest).div_ceil(limit.window_us()))
}

impl Counter for LeakyBucket {
    #[inline]
    fn at(self, _: &Limit, now: u64) -> Self {
        if self.arrival < now { Self { arrival: now, rest: 0, ..self } } else { self }
    }

    #[allow(clippy::inline_always, reason = "the low water, which is most of it, is then not copied")]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let (arrival, arrival_rest) = self.under(limit.max());
        let backlog = arrival - now;
        let (time, rest) = mul_div_rem(limit.capacity().saturating_sub(cost), limit.window_us(), limit.max());
        let tokens = tokens(backlog, arrival_rest, limit);
        let wait = (backlog + u64::from(arrival_rest > rest)).saturating_sub(time);
        LimitStatus { wait, exceeded: wait > 0, remaining: limit.capacity().saturating_sub(tokens) }
    }

    fn used(&self, limit: &Limit, now: u64) -> u64 {
        let (arrival, rest) = self.under(limit.max());
        tokens(arrival - now, rest, limit)
    }

    #[inline]
    fn charge(&mut self, limit: &Limit, cost: u64, now: u64) {
        let parts = limit.max().max(1);
        let (arrival, arrival_rest) = self.under(parts);
        if (arrival, arrival_rest) == (now, 0) || self.parts != parts {
            self.low_water.start(now);
        } else {
            self.low_water.charge((arrival - now, arrival_rest), now, limit.window_us());
        }
        let (time, rest) = mul_div_rem(cost, limit.window_us(), parts);
        self.arrival = arrival + time + (arrival_rest + rest) / parts;
        self.rest = (arrival_rest + rest) % parts;
        self.parts = parts;
    }

    fn refund(&mut self, limit: &Limit, cost: u64, ticket: u64, newest: u64, now: u64) -> bool {
        // Charges before another `max` are behind the low water, so these are the parts that it was
        // charged in.
        let parts = self.parts.max(1);
        let backlog = (self.arrival - now, self.rest);
        let charged = mul_div_rem(cost, limit.window_us(), parts);
        let amount = self.low_water.since(ticket, newest).min(charged).min(backlog);
        let (left, rest) = less(backlog, amount, parts);
        (self.arrival, self.rest) = (now + left, rest);
        self.low_water.refund(amount, parts, ticket, newest);
        amount > (0, 0)
    }

    #[inline]
    fn life(&self, _: &Limit, now: u64) -> u64 {
        self.arrival + u64::from(self.rest > 0) - now
    }
}

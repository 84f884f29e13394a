//! The token bucket: `burst` tokens, refilled evenly at `max` per window.
//!
//! It counts what is missing, in tokens and `window`-ths of a token, so that nothing is ever
//! rounded: a new bucket misses nothing. An interval of one window sees at most `burst + max − 1`
//! tokens (`burst + max` if both its ends count).

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
pub(crate) struct TokenBucket {
    /// Tokens missing, rounded down, and the rest in `window`-ths.
    missing: u64,
    rest: u64,
    at: u64,
    /// Of what is missing.
    low_water: LowWater,
}

impl Counter for TokenBucket {
    #[inline]
    fn at(self, limit: &Limit, now: u64) -> Self {
        let refilled = mul_div_rem(now.saturating_sub(self.at), limit.max(), limit.window_us());
        let (missing, rest) = less((self.missing, self.rest), refilled, limit.window_us());
        Self { missing, rest, at: now, ..self }
    }

    #[allow(clippy::inline_always, reason = "the low water, which is most of it, is then not copied")]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, _: u64) -> LimitStatus {
        let needed = self.missing + u64::from(self.rest > 0);
        let wait = match (self.missing + cost).checked_sub(limit.capacity()) {
            Some(excess) if needed + cost > limit.capacity() => refill(limit, excess, self.rest),
            _ => 0,
        };
        LimitStatus { wait, exceeded: wait > 0, remaining: limit.capacity().saturating_sub(needed) }
    }

    fn used(&self, _: &Limit, _: u64) -> u64 {
        self.missing + u64::from(self.rest > 0)
    }

    #[inline]
    fn charge(&mut self, limit: &Limit, cost: u64, now: u64) {
        if (self.missing, self.rest) == (0, 0) {
            self.low_water.start(now);
        } else {
            self.low_water.charge((self.missing, self.rest), now, limit.window_us());
        }
        self.missing += cost;
    }

    fn refund(&mut self, limit: &Limit, cost: u64, ticket: u64, newest: u64, _: u64) -> bool {
        let missing = (self.missing, self.rest);
        let amount = self.low_water.since(ticket, newest).min((cost, 0)).min(missing);
        (self.missing, self.rest) = less(missing, amount, limit.window_us());
        self.low_water.refund(amount, limit.window_us(), ticket, newest);
        amount > (0, 0)
    }

    #[inline]
    fn life(&self, limit: &Limit, _: u64) -> u64 {
        refill(limit, self.missing, self.rest)
    }
}

/// How long `tokens + rest / window` tokens take, in microseconds, rounded up.
fn refill(limit: &Limit, tokens: u64, rest: u64) -> u64 {
    let units = u128::from(tokens) * u128::from(limit.window_us()) + u128::from(rest);
    u64::try_from(units.div_ceil(u128::from(limit.max().max(1)))).unwrap_or(u64::MAX)
}

//! The token bucket: `burst` tokens, refilled evenly at `max` per window.
//!
//! It counts what is missing, in tokens and `window`-ths of a token, so that nothing is ever
//! rounded: a new bucket misses nothing. An interval of one window sees at most `burst + max − 1`
//! tokens (`burst + max` if both its ends count).

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
pub(crate) struct TokenBucket {
    /// Tokens missing, rounded down, and the rest in `window`-ths.
    missing: u64,
    rest: u64,
    at: u64,
    /// The limit's, when this was written.
    max: u64,
}

impl Counter for TokenBucket {
    #[inline]
    fn at(self, limit: &Limit, now: u64) -> Self {
        let refilled = mul_div_rem(now.saturating_sub(self.at), limit.max(), limit.window_us());
        let Self { missing, rest, .. } = self.kept(limit, now);
        let (missing, rest) = less((missing, rest), refilled, limit.window_us());
        Self { missing, rest, at: now, max: limit.max() }
    }

    #[inline]
    fn kept(self, limit: &Limit, _: u64) -> Self {
        if self.is_at_another_rate(limit) {
            // As the leaky bucket, and on Redis, where the parts depend on `max`.
            Self { missing: self.missing + u64::from(self.rest > 0), rest: 0, max: limit.max(), ..self }
        } else {
            self
        }
    }

    #[allow(clippy::inline_always, reason = "a call to it would cost a quarter of what it does")]
    #[inline(always)]
    fn status(&self, limit: &Limit, cost: u64, _: u64) -> LimitStatus {
        let needed = self.missing + u64::from(self.rest > 0);
        let wait = match (self.missing + cost).checked_sub(limit.capacity()) {
            Some(excess) if needed + cost > limit.capacity() => refill(limit, excess, self.rest),
            _ => 0,
        };
        LimitStatus { wait, remaining: limit.capacity().saturating_sub(needed) }
    }

    fn used(&self, _: &Limit, _: u64) -> u64 {
        self.missing + u64::from(self.rest > 0)
    }

    #[inline]
    fn charge(&mut self, _: &Limit, cost: u64, _: u64) {
        self.missing += cost;
    }

    #[inline]
    fn is_at_another_rate(&self, limit: &Limit) -> bool {
        self.max != limit.max()
    }

    fn refund(&mut self, limit: &Limit, cost: u64, ticket: u64, newest: u64, now: u64) -> bool {
        let parts = limit.window_us();
        let refilled = mul_div_rem(now.saturating_sub(ticket), limit.max(), parts);
        let Self { missing, rest, .. } = self.at(limit, now);
        let amount = refundable((cost, 0), refilled, parts, ticket, newest).min((missing, rest));
        (self.missing, self.rest) = less((self.missing, self.rest), amount, parts);
        amount > (0, 0)
    }

    #[inline]
    fn life(&self, limit: &Limit, now: u64) -> u64 {
        self.at.saturating_add(refill(limit, self.missing, self.rest)).saturating_sub(now)
    }
}

/// How long `tokens + rest / window` tokens take, in microseconds, rounded up.
fn refill(limit: &Limit, tokens: u64, rest: u64) -> u64 {
    let units = u128::from(tokens) * u128::from(limit.window_us()) + u128::from(rest);
    u64::try_from(units.div_ceil(u128::from(limit.max().max(1)))).unwrap_or(u64::MAX)
}

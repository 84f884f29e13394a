//! The token bucket: `burst` tokens, refilled evenly at `max` per window.
//!
//! It counts what is missing, in tokens and `window`-ths of a token, so that nothing is ever rounded: a new bucket
//! misses nothing. An interval of one window sees at most `burst + max − 1` tokens (`burst + max` if both its ends
//! count).

use super::counters::Counter;
use super::{Standing, mul_div_rem};
use crate::rule::Limit;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TokenBucket {
    /// Tokens missing, rounded down, and the rest in `window`-ths.
    missing: u64,
    rest: u64,
    at: u64,
}

impl Counter for TokenBucket {
    fn at(self, limit: &Limit, now: u64) -> Self {
        let (whole, rest) = mul_div_rem(now.saturating_sub(self.at), limit.max(), limit.window_us());
        if (whole, rest) >= (self.missing, self.rest) {
            return Self { missing: 0, rest: 0, at: now };
        }
        let borrow = u64::from(rest > self.rest);
        Self { missing: self.missing - whole - borrow, rest: self.rest + borrow * limit.window_us() - rest, at: now }
    }

    fn standing(&self, limit: &Limit, cost: u64, _: u64) -> Standing {
        let needed = self.missing + u64::from(self.rest > 0);
        Standing {
            wait: match (self.missing + cost).checked_sub(limit.capacity()) {
                Some(excess) if needed + cost > limit.capacity() => refill(limit, excess, self.rest),
                _ => 0,
            },
            remaining: limit.capacity().saturating_sub(needed),
            reset: refill(limit, self.missing, self.rest),
        }
    }

    fn charge(&mut self, _: &Limit, cost: u64, _: u64) {
        self.missing += cost;
    }

    fn refund(&mut self, limit: &Limit, cost: u64, then: u64) -> bool {
        let window = limit.window_us();
        // What has been refilled since was paid back already.
        let (whole, rest) = mul_div_rem(self.at.saturating_sub(then), limit.max(), window);
        if whole >= cost || (self.missing, self.rest) == (0, 0) {
            return false;
        }
        let borrow = u64::from(rest > 0);
        let (whole, rest) = (cost - whole - borrow, borrow * window - rest);
        if (whole, rest) >= (self.missing, self.rest) {
            (self.missing, self.rest) = (0, 0);
        } else {
            let borrow = u64::from(rest > self.rest);
            self.missing -= whole + borrow;
            self.rest = self.rest + borrow * window - rest;
        }
        true
    }

    fn life(&self, limit: &Limit, _: u64) -> u64 {
        refill(limit, self.missing, self.rest)
    }
}

/// How long `tokens + rest / window` tokens take, in microseconds, rounded up.
fn refill(limit: &Limit, tokens: u64, rest: u64) -> u64 {
    let units = u128::from(tokens) * u128::from(limit.window_us()) + u128::from(rest);
    u64::try_from(units.div_ceil(u128::from(limit.max().max(1)))).unwrap_or(u64::MAX)
}

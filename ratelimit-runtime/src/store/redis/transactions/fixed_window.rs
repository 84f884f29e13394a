//! The fixed window without scripts: a counter that begins with its expiry, and is raised only as
//! far as the limit.
//!
//! The key holds 16 bytes: the units used, and a number that tells this window from the next, both as
//! big-endian integers. Redis ends the window by expiring the key, on a whole millisecond.

use std::hash::{BuildHasher as _, RandomState};

use redis::{Cmd, Value, cmd, from_redis_value_ref};

use super::pool::Pool;
use crate::rule::Limit;
use crate::store::redis::batcher::Failure;
use crate::store::redis::errors::{foreign_key, unexpected_reply};
use crate::store::{Request, Verdict};

/// The largest value of the field: of 63 bits, beside the sign.
const TOP: u64 = (1 << 63) - 1;
/// The fields of the value, by their first bits.
const USED: &str = "1";
const WINDOW: &str = "65";
/// What PTTL says of a key that does not expire.
const NEVER: i64 = -1;

/// Decides, and charges the request if it is admitted and `charges`.
pub(super) async fn count(
    pool: &Pool,
    asking: bool,
    charges: bool,
    key: &[u8],
    request: &Request<'_>,
) -> Result<Verdict, Failure> {
    let [limit] = request.limits() else { return Err(Failure::NotSent(unexpected_reply())) };
    let charges = charges && request.cost() > 0;
    let commands = if charges { acquire(key, request.cost(), limit) } else { peek(key) };
    let replies = pool.execute(commands, asking).await?;
    if charges {
        if replies.last() == Some(&Value::Int(NEVER)) {
            // Another program took the expiry away, and without it the window would not end.
            let expire = cmd("PEXPIRE").arg(key).arg(millis(limit)).take();
            let _ = pool.execute(vec![expire], asking).await;
        }
        return acquired(&replies, limit).ok_or_else(|| Failure::Lost(unexpected_reply().lost()));
    }
    peeked(&replies, request.cost(), limit).ok_or_else(|| Failure::NotSent(foreign_key()))
}

/// Gives back to the window that was charged, and to no other; says whether that was possible.
pub(super) async fn refund(
    pool: &Pool,
    asking: bool,
    key: &[u8],
    request: &Request<'_>,
    ticket: u64,
) -> Result<bool, Failure> {
    let mut lent = pool.lend(key, asking).await?;
    loop {
        let replies = lent.watch(key, vec![cmd("GET").arg(key).take()]).await?;
        let counter = replies.first().and_then(Counter::of).ok_or_else(|| Failure::NotSent(foreign_key()))?;
        if counter.window != ticket || counter.used == 0 {
            return Ok(false);
        }
        let write = match counter.used.saturating_sub(request.cost()) {
            // As everywhere, the next call then begins a window of its own.
            0 => cmd("UNLINK").arg(key).take(),
            used => cmd("SETRANGE").arg(key).arg(0).arg(&used.to_be_bytes()[..]).take(),
        };
        if lent.execute(vec![write]).await?.is_some() {
            return Ok(true);
        }
    }
}

/// Adding up to the brim, and taking that away again, fails in the first step if the call does not
/// fit, and then in the second. At most 2^53 units are used, so neither can fail without the
/// other.
fn acquire(key: &[u8], cost: u64, limit: &Limit) -> Vec<Cmd> {
    // A window in which nothing is used, and which no other has the number of.
    let window = (RandomState::new().hash_one(0) & Limit::MAX_COUNT).max(1);
    let set =
        cmd("SET").arg(key).arg(&u128::from(window).to_be_bytes()[..]).arg("PX").arg(millis(limit)).arg("NX").take();
    let spare = TOP - max(limit);
    let mut raise = cmd("BITFIELD");
    raise.arg(key).arg("OVERFLOW").arg("FAIL");
    raise.arg("INCRBY").arg("u63").arg(USED).arg(spare + cost.min(max(limit)));
    raise.arg("INCRBY").arg("u63").arg(USED).arg(format!("-{spare}"));
    raise.arg("GET").arg("u63").arg(USED).arg("GET").arg("u63").arg(WINDOW);
    vec![set, raise, cmd("PTTL").arg(key).take()]
}

fn acquired(replies: &[Value], limit: &Limit) -> Option<Verdict> {
    let [_, Value::Array(fields), left] = replies else { return None };
    let [raised, _, used, window] = fields.as_slice() else { return None };
    let allowed = !matches!(raised, Value::Nil);
    let ticket = if allowed { from_redis_value_ref(window).ok()? } else { 0 };
    let (used, left) = (from_redis_value_ref(used).ok()?, from_redis_value_ref(left).ok()?);
    Some(verdict(allowed, used, left, limit).with_ticket(ticket))
}

fn peek(key: &[u8]) -> Vec<Cmd> {
    vec![cmd("GET").arg(key).take(), cmd("PTTL").arg(key).take()]
}

fn peeked(replies: &[Value], cost: u64, limit: &Limit) -> Option<Verdict> {
    let [value, left] = replies else { return None };
    let used = Counter::of(value)?.used;
    Some(verdict(used.saturating_add(cost) <= max(limit), used, from_redis_value_ref(left).ok()?, limit))
}

/// `left` is how long the key lives, in milliseconds: it is gone when the last one is over.
fn verdict(allowed: bool, used: u64, left: i64, limit: &Limit) -> Verdict {
    let left = if left == NEVER { millis(limit) } else { u64::try_from(left).map_or(0, |left| left + 1) } * 1_000;
    Verdict {
        allowed,
        remaining: max(limit).saturating_sub(used),
        retry_after_us: if allowed { 0 } else { left },
        reset_after_us: if used == 0 { 0 } else { left },
        ..Verdict::admitted()
    }
}

fn max(limit: &Limit) -> u64 {
    limit.max().max(1)
}

fn millis(limit: &Limit) -> u64 {
    limit.window_us().div_ceil(1000)
}

#[derive(Default)]
struct Counter {
    used: u64,
    window: u64,
}

impl Counter {
    /// `None` if another program has written the value.
    fn of(value: &Value) -> Option<Self> {
        if *value == Value::Nil {
            return Some(Self::default());
        }
        let Value::BulkString(bytes) = value else { return None };
        let both = u128::from_be_bytes(bytes.as_slice().try_into().ok()?);
        #[allow(clippy::cast_possible_truncation, reason = "the halves")]
        Some(Self { used: (both >> 64) as u64, window: both as u64 })
    }
}

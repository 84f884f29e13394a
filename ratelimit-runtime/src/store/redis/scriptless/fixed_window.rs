//! The fixed window without scripts: a counter whose window begins with its first charge, in one
//! transaction without `WATCH`.
//!
//! The key holds 8 bytes: the units used, as a big-endian integer. Redis ends the window by
//! expiring the key, on a whole millisecond. The value does not tell one window from the next, so
//! charges cannot be given back.

use redis::{Cmd, Value, cmd, from_redis_value};

use super::lent::transaction;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::redis::batcher::{Batcher, Failure};
use crate::store::redis::errors::{foreign_key, unexpected_reply};
use crate::store::{Request, Verdict};

/// The largest value of an unsigned field of `BITFIELD`, which has 63 bits at most.
const TOP: u64 = (1 << 63) - 1;
/// The length of the value.
const BYTES: usize = 8;
/// The offset of the field in bits: its 63 bits are the low ones of the 8 bytes.
const USED: &str = "1";
/// The reply of `PTTL` for a key without an expiry.
const NEVER: i64 = -1;

/// Decides, and charges the request if it is admitted and `charges`.
pub(super) async fn decide(
    batcher: &Batcher,
    asking: bool,
    charges: bool,
    key: &[u8],
    request: &Request<'_>,
) -> Result<Verdict, Failure> {
    let [limit] = request.limits() else {
        debug_assert!(false, "others are not supported");
        return Err(unexpected_reply().into());
    };
    let charges = charges && request.cost() > 0;
    let commands = if charges {
        acquire(key, request.cost(), limit)
    } else {
        peek(key)
    };
    let replies = execute(batcher, commands, asking).await?;
    if charges {
        if let Some(Value::BulkString(before)) = replies.first()
            && before.len() != BYTES
        {
            // A value of another program, which BITFIELD has made as long as its field.
            let mut put_back = cmd("SET");
            put_back.arg(key).arg(before).arg("XX").arg("KEEPTTL");
            let _ = batcher.send(&[put_back], asking).await;
            return Err(foreign_key().into());
        }
        let is_endless = replies.last() == Some(&Value::Int(NEVER));
        let verdict = acquired(replies, limit)?;
        if is_endless {
            // Another program has removed the expiry, without which the window never ends.
            let expire = cmd("PEXPIRE").arg(key).arg(millis(limit)).take();
            let _ = batcher.send(&[expire], asking).await;
        }
        return Ok(verdict);
    }
    Ok(peeked(replies, request.cost(), limit).ok_or_else(foreign_key)?)
}

/// Executes commands in one transaction, and returns their replies.
async fn execute(
    batcher: &Batcher,
    commands: Vec<Cmd>,
    asking: bool,
) -> Result<Vec<Value>, Failure> {
    match batcher.send(&transaction(commands, asking), false).await? {
        Value::Array(replies) => Ok(replies),
        _ => Err(unexpected_reply().lost().into()),
    }
}

/// `BITFIELD` adds the cost and as much as the field has room for above `max`, then subtracts the
/// latter. If the call does not fit, the addition overflows and changes nothing (`OVERFLOW FAIL`);
/// the subtraction then fails below 0, because at most 2^53 units are used.
fn acquire(key: &[u8], cost: u64, limit: &Limit) -> Vec<Cmd> {
    let set = cmd("SET")
        .arg(key)
        .arg(&0_u64.to_be_bytes()[..])
        .arg("PX")
        .arg(millis(limit))
        .arg("NX")
        .take();
    let spare = TOP - max(limit);
    let raise = cmd("BITFIELD")
        .arg(key)
        .arg(&["OVERFLOW", "FAIL", "INCRBY", "u63", USED])
        .arg(spare + cost.min(max(limit)))
        .arg(&["INCRBY", "u63", USED])
        .arg(format!("-{spare}"))
        .arg(&["GET", "u63", USED])
        .take();
    let about = |name| cmd(name).arg(key).take();
    vec![about("GET"), set, raise, about("PTTL")]
}

fn acquired(replies: Vec<Value>, limit: &Limit) -> Result<Verdict, StoreError> {
    let (_, _, (raised, _, used), left): (Value, Value, (Value, Value, u64), i64) =
        from_redis_value(Value::Array(replies)).map_err(|_| unexpected_reply().lost())?;
    if used > Limit::MAX_COUNT {
        // A text: no limit admits as many.
        return Err(foreign_key());
    }
    Ok(verdict(raised != Value::Nil, used, left, limit))
}

fn peek(key: &[u8]) -> Vec<Cmd> {
    vec![cmd("GET").arg(key).take(), cmd("PTTL").arg(key).take()]
}

/// The verdict of a look; `None` if the value is no counter of this crate.
fn peeked(replies: Vec<Value>, cost: u64, limit: &Limit) -> Option<Verdict> {
    let (used, left): (Option<[u8; BYTES]>, i64) = from_redis_value(Value::Array(replies)).ok()?;
    let used = used.map_or(0, u64::from_be_bytes);
    let allowed = used.saturating_add(cost) <= max(limit);
    Some(verdict(allowed, used, left, limit))
}

/// A verdict. `left` is the reply to `PTTL` in milliseconds, below 0 without a key. It is rounded
/// down, so the key may live for one more.
fn verdict(allowed: bool, used: u64, left: i64, limit: &Limit) -> Verdict {
    let left = if left == NEVER {
        millis(limit)
    } else {
        u64::try_from(left).map_or(0, |left| left + 1)
    } * 1_000;
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

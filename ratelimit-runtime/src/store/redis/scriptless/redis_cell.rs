//! The leaky bucket by `CL.THROTTLE`, the command of the module redis-cell: commands and replies.
//!
//! Its replies are in whole seconds, rounded down, so the wait of a refusal is up to a second
//! longer than necessary. It counts in nanoseconds rounded down, so a rate that does not divide is
//! too fast by less than one part in a million, and its remaining units are rounded by that.

use redis::{Cmd, Value, cmd, from_redis_value_ref};

use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::redis::batcher::{Batcher, Failure};
use crate::store::redis::errors::unexpected_reply;
use crate::store::{Request, Verdict};

const SECOND: u64 = 1_000_000;
/// The longest time that is taken from a reply, in seconds: no bucket takes longer to run empty.
const LONGEST: u64 = Limit::MAX_COUNT / SECOND;

/// `Ok` if the module can decide the request: it counts in whole seconds, takes a unit of cost for
/// whole nanoseconds, and brings the server down if a key is not UTF-8.
///
/// # Errors
///
/// `Unsupported`.
pub(super) fn supports(request: &Request<'_>) -> Result<(), StoreError> {
    let limit = limit(request);
    let (max, window) = (limit.max().max(1), limit.window_us());
    let why = if window % SECOND != 0 {
        "CL.THROTTLE takes windows of whole seconds"
    } else if window / max < 1000 && window % max != 0 || window < max {
        "CL.THROTTLE is inexact at rates above 1,000 a second"
    } else if std::str::from_utf8(request.key()).is_err() {
        "CL.THROTTLE takes keys of UTF-8"
    } else {
        return Ok(());
    };
    Err(StoreError::unsupported(why))
}

/// Decides, and charges the request if it is admitted and `charges`.
pub(super) async fn decide(
    batcher: &Batcher,
    asking: bool,
    charges: bool,
    key: &[u8],
    request: &Request<'_>,
) -> Result<Verdict, Failure> {
    let reply = batcher
        .send(&[command(key, request, charges)], asking)
        .await?;
    Ok(verdict(&reply, request, charges).ok_or_else(unexpected_reply)?)
}

/// The command; a look has a quantity of 0.
fn command(key: &[u8], request: &Request<'_>, charges: bool) -> Cmd {
    let limit = limit(request);
    let (burst, count, seconds) = (
        limit.capacity().max(1) - 1,
        limit.max().max(1),
        limit.window_us() / SECOND,
    );
    cmd("CL.THROTTLE")
        .arg(key)
        .arg(burst)
        .arg(count)
        .arg(seconds)
        .arg(if charges { request.cost() } else { 0 })
        .take()
}

/// The limit: the store declares support for one.
fn limit(request: &Request<'_>) -> Limit {
    let limits = request.limits();
    debug_assert!(limits.len() == 1, "others are not supported");
    limits.first().copied().unwrap_or(Limit::per_second(1))
}

/// The verdict in the reply to [`command`]; `None` if the reply is not the module's.
fn verdict(reply: &Value, request: &Request<'_>, charges: bool) -> Option<Verdict> {
    let numbers: [i64; 5] = from_redis_value_ref(reply).ok()?;
    // -1 stands for nothing to wait for.
    let [limited, _, remaining, retry_after, reset_after] =
        numbers.map(|number| u64::try_from(number).unwrap_or(0));
    let (limit, cost) = (limit(request), request.cost());
    let empty_in = (reset_after.min(LONGEST) + 1) * SECOND;
    let allowed = limited == 0 && (charges || cost <= remaining);
    if allowed {
        let reset_after_us = if remaining >= limit.capacity() && reset_after == 0 {
            0
        } else {
            empty_in
        };
        return Some(Verdict {
            remaining,
            reset_after_us,
            ..Verdict::admitted()
        });
    }
    let drain = |units: u64| {
        let drained = u128::from(units) * u128::from(limit.window_us());
        u64::try_from(drained.div_ceil(u128::from(limit.max().max(1)))).unwrap_or(u64::MAX)
    };
    // Until what may stay has not drained yet: at most the time in which the missing units drain,
    // and never less than the module said.
    let wait = empty_in.saturating_sub(drain(limit.capacity().saturating_sub(cost)));
    let least = (retry_after.min(LONGEST) * SECOND).max(1);
    // Where nothing remains, more may be used than the limit has: it may have been lowered.
    let longest = if remaining > 0 {
        drain(cost.saturating_sub(remaining))
    } else {
        u64::MAX
    };
    let retry_after_us = wait.min(longest).max(least);
    let reset_after_us = empty_in.max(retry_after_us);
    Some(Verdict {
        remaining,
        retry_after_us,
        reset_after_us,
        rounded: true,
        ..Verdict::refused()
    })
}

//! The leaky bucket by `CL.THROTTLE`, the command of the module redis-cell: commands and replies.
//!
//! It answers in whole seconds, rounded down, so the wait of a refusal is up to a second longer
//! than it has to be. And it counts in nanoseconds rounded down, so a rate that does not divide
//! runs fast, by less than one part in a million.

use redis::{Cmd, Value, cmd};

use super::errors::unsupported;
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::{Request, Verdict};

const SECOND: u64 = 1_000_000;
/// In microseconds: twice as long as any bucket takes to run empty.
const PROBED: u64 = 2 * Limit::MAX_WINDOW.as_secs() * SECOND;
/// In seconds: more than any bucket takes to run empty is not taken for true.
const LONGEST: u64 = Limit::MAX_COUNT / SECOND;

/// Whether the module can decide the request: it counts in whole seconds, takes a unit of cost for
/// whole nanoseconds, and brings the server down if a key is not UTF-8.
///
/// # Errors
///
/// `Unsupported`.
pub(super) fn supports(request: &Request<'_>) -> Result<(), StoreError> {
    let limit = limit(request);
    let (max, window) = (limit.max().max(1), limit.window_us());
    if window % SECOND != 0 {
        return unsupported("CL.THROTTLE takes windows of whole seconds");
    }
    if window / max < 1000 && window % max != 0 || window < max {
        return unsupported("CL.THROTTLE is inexact at rates above 1,000 a second");
    }
    if std::str::from_utf8(request.key()).is_err() {
        return unsupported("CL.THROTTLE takes keys of UTF-8");
    }
    Ok(())
}

/// Charges the request if it is admitted.
pub(crate) fn acquire(key: &[u8], request: &Request<'_>) -> Cmd {
    let limit = limit(request);
    throttle(key, limit.capacity().max(1) - 1, limit.max().max(1), limit.window_us() / SECOND, request.cost())
}

/// Looks, by asking for a quantity of 0. The module keeps one time for a key, when its bucket runs
/// empty. It tells exactly how far ahead that is if it is asked with a bucket that drains a unit
/// per microsecond, and holds any wait.
pub(crate) fn peek(key: &[u8]) -> Cmd {
    throttle(key, PROBED - 1, SECOND, 1, 0)
}

fn throttle(key: &[u8], burst: u64, count: u64, seconds: u64, cost: u64) -> Cmd {
    cmd("CL.THROTTLE").arg(key).arg(burst).arg(count).arg(seconds).arg(cost).take()
}

/// There is one: the store declares no more.
fn limit(request: &Request<'_>) -> Limit {
    request.limits().first().copied().unwrap_or(Limit::per_second(1))
}

/// The verdict by the reply to [`acquire`]; `None` if the reply is not the module's.
pub(crate) fn acquired(reply: &Value, request: &Request<'_>) -> Option<Verdict> {
    let (said, limit) = (Throttle::of(reply)?, limit(request));
    let (left, reset) = (said.left(&limit), (said.reset_after + 1) * SECOND);
    if said.allowed {
        let whole = if left >= limit.capacity() && said.reset_after == 0 { 0 } else { reset };
        return Some(Verdict { remaining: left, reset_after_us: whole, ..Verdict::admitted() });
    }
    // At most the time in which the missing units drain, and never less than the module said.
    let missing = u128::from(request.cost().saturating_sub(left)) * u128::from(limit.window_us());
    let drained = u64::try_from(missing.div_ceil(u128::from(limit.max().max(1)))).unwrap_or(u64::MAX);
    let waits = said.retry_after * SECOND;
    let retry = drained.min(waits + SECOND).max(waits).max(1);
    let reset_after_us = reset.max(retry);
    Some(Verdict { remaining: left, retry_after_us: retry, reset_after_us, rounded: true, ..Verdict::refused() })
}

/// What [`acquire`] would be answered, by the reply to [`peek`]; `None` if the reply is not the
/// module's.
pub(crate) fn peeked(reply: &Value, request: &Request<'_>) -> Option<Verdict> {
    let (said, limit) = (Throttle::of(reply)?, limit(request));
    let empty_in = PROBED.saturating_sub(said.remaining);
    // As the module counts: nanoseconds for one unit of cost, rounded down.
    let unit = (u128::from(limit.window_us()) * 1000 / u128::from(limit.max().max(1))).max(1);
    let capacity = unit * u128::from(limit.capacity());
    let filled = u128::from(empty_in) * 1000;
    let left = u64::try_from(capacity.saturating_sub(filled) / unit).unwrap_or(u64::MAX);
    let wait = (unit * u128::from(request.cost()) + filled).saturating_sub(capacity).div_ceil(1000);
    let wait = u64::try_from(wait).unwrap_or(u64::MAX);
    let reset_after_us = empty_in.max(wait);
    let admitted = Verdict { remaining: left, retry_after_us: wait, reset_after_us, ..Verdict::admitted() };
    Some(Verdict { allowed: wait == 0, ..admitted })
}

/// The module's answer; times are in seconds.
struct Throttle {
    allowed: bool,
    remaining: u64,
    retry_after: u64,
    reset_after: u64,
}

impl Throttle {
    fn of(reply: &Value) -> Option<Self> {
        let Value::Array(reply) = reply else { return None };
        let number = |value: &Value| match value {
            // -1 stands for nothing to wait for.
            Value::Int(number) => Some(u64::try_from(*number).unwrap_or(0)),
            _ => None,
        };
        let numbers = reply.iter().map(number).collect::<Option<Vec<u64>>>()?;
        let [limited, _, remaining, retry_after, reset_after] = *numbers.as_slice() else { return None };
        let (retry_after, reset_after) = (retry_after.min(LONGEST), reset_after.min(LONGEST));
        Some(Self { allowed: limited == 0, remaining, retry_after, reset_after })
    }

    /// The units left. The module divides by microseconds rounded down, and so may say too many.
    fn left(&self, limit: &Limit) -> u64 {
        let max = u128::from(limit.max().max(1));
        let window = u128::from(limit.window_us());
        let left = u128::from(self.remaining) * (window / max) * max / window;
        u64::try_from(left).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;

    #[test]
    fn waits_are_rounded_up_to_what_drains_and_no_further() {
        let limits = [Limit::per_minute(6).with_burst(3)];
        let request = Request::new(b"a", Algorithm::LeakyBucket, &limits).with_cost(2);
        let reply = |numbers: [i64; 5]| Value::Array(numbers.map(Value::Int).to_vec());
        let verdict = |numbers| acquired(&reply(numbers), &request).map(|said| (said.allowed, said.retry_after_us));
        assert_eq!(verdict([1, 3, 1, 9, 19]), Some((false, 10_000_000)));
        assert_eq!(verdict([1, 3, 0, 10, 29]), Some((false, 11_000_000)));
        assert_eq!(verdict([0, 3, 1, -1, 19]), Some((true, 0)));
        assert_eq!(peeked(&Value::Int(1), &request), None);
    }
}

//! The leaky bucket by `CL.THROTTLE`, the command of the module redis-cell.
//!
//! It answers in whole seconds, rounded down, so the wait of a refusal is up to a second longer
//! than it has to be. And it counts in nanoseconds rounded down, so a rate that does not divide
//! runs fast, by less than one part in a million.

use std::fmt::Write as _;

use redis::{Cmd, ServerError, Value, cmd};

use super::errors::{self, refuse, unexpected_reply};
use super::topology::Calls;
use crate::error::StoreError;
use crate::rule::{BlockDuration, Limit};
use crate::store::{Request, Verdict};

const SECOND: u64 = 1_000_000;
/// In microseconds: twice as long as any bucket takes to run empty.
const PROBED: u64 = 2 * Limit::MAX_WINDOW.as_secs() * SECOND;
/// In seconds: more than any bucket takes to run empty is not taken for true.
const LONGEST: u64 = Limit::MAX_COUNT / SECOND;

/// Whether the module can decide the request: it counts in whole seconds, and takes a unit of cost
/// for whole nanoseconds.
///
/// # Errors
///
/// `Unsupported`, with what to choose instead.
pub(super) fn supports(request: &Request<'_>, own_clock: bool) -> Result<(), StoreError> {
    let inexact = |limit: &Limit| {
        let (max, window) = (limit.max().max(1), limit.window_us());
        window / max < 1000 && window % max != 0 || window < max
    };
    let limits = request.limits();
    refuse(
        &[
            (limits.len() != 1, "CL.THROTTLE keeps one limit a key"),
            (limits.iter().any(|limit| limit.window_us() % SECOND != 0), "CL.THROTTLE takes windows of whole seconds"),
            (limits.iter().any(inexact), "CL.THROTTLE is inexact at rates above 1,000 a second"),
            (
                request.is_reservation() || request.block_duration() != BlockDuration::NONE,
                "CL.THROTTLE has neither reservations (`count`) nor blocks (`block`)",
            ),
            (own_clock, "CL.THROTTLE goes by the server's clock"),
        ],
        "choose RedisMode::Scripts",
    )
}

pub(super) async fn acquire(calls: Calls<'_>, request: &Request<'_>) -> Result<Verdict, StoreError> {
    let limit = limit(request)?;
    let said = Throttle::ask(calls, request, limit, request.cost()).await?;
    let left = said.left(limit);
    Ok(said.verdict(limit, left, request.cost()))
}

/// Asks for a quantity of 0, and decides from the reply as the module would.
///
/// The module keeps one time for a key, when its bucket runs empty. It tells exactly how far ahead
/// that is if it is asked with a bucket that drains a unit per microsecond, and holds any wait.
pub(super) async fn peek(calls: Calls<'_>, request: &Request<'_>) -> Result<Verdict, StoreError> {
    let limit = limit(request)?;
    let mut command = cmd("CL.THROTTLE");
    command.arg(key(request)).arg(PROBED - 1).arg(SECOND).arg(1).arg(0);
    Ok(Throttle::send(calls, &command).await?.looked_at(request, limit))
}

/// What a key of the module's ends in.
pub(super) const CELL: &[u8] = b"%cell";
/// What one ends in that is written in hexadecimal; lists do not find these.
pub(super) const CELL_HEX: &[u8] = b"%cellhex";

/// What the module keeps is not the state of the script, so it has a key of its own. The module
/// brings the server down if a key is not UTF-8, so such a key is written in hexadecimal.
pub(super) fn key(request: &Request<'_>) -> Vec<u8> {
    if std::str::from_utf8(request.key()).is_ok() {
        return [request.key(), CELL].concat();
    }
    let mut hex = String::with_capacity(request.key().len() * 2);
    for byte in request.key() {
        let _ = write!(hex, "{byte:02x}");
    }
    [hex.as_bytes(), CELL_HEX].concat()
}

fn limit<'a>(request: &Request<'a>) -> Result<&'a Limit, StoreError> {
    request.limits().first().ok_or_else(unexpected_reply)
}

/// The module's answer.
struct Throttle {
    allowed: bool,
    remaining: u64,
    /// In seconds.
    retry_after: u64,
    reset_after: u64,
}

impl Throttle {
    async fn ask(calls: Calls<'_>, request: &Request<'_>, limit: &Limit, cost: u64) -> Result<Self, StoreError> {
        let mut command = cmd("CL.THROTTLE");
        command.arg(key(request)).arg(limit.capacity().max(1) - 1);
        command.arg(limit.max().max(1)).arg(limit.window_us() / SECOND).arg(cost);
        Self::send(calls, &command).await
    }

    async fn send(calls: Calls<'_>, command: &Cmd) -> Result<Self, StoreError> {
        let is_like = |reply: &Value| Self::of(reply).is_some();
        let reply = calls.send(command, is_like).await?.map_err(|error| refused(&error))?;
        Self::of(&reply).ok_or_else(unexpected_reply)
    }

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

    /// What a call would be answered, if this is the reply to [`peek`].
    fn looked_at(&self, request: &Request<'_>, limit: &Limit) -> Verdict {
        let empty_in = PROBED.saturating_sub(self.remaining);
        // As the module counts: nanoseconds for one unit of cost, rounded down.
        let unit = (u128::from(limit.window_us()) * 1000 / u128::from(limit.max().max(1))).max(1);
        let capacity = unit * u128::from(limit.capacity());
        let filled = u128::from(empty_in) * 1000;
        let left = u64::try_from(capacity.saturating_sub(filled) / unit).unwrap_or(u64::MAX);
        let wait = (unit * u128::from(request.cost()) + filled).saturating_sub(capacity).div_ceil(1000);
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        Verdict {
            allowed: wait == 0,
            remaining: left,
            retry_after_us: wait,
            reset_after_us: empty_in.max(wait),
            ..Verdict::admitted()
        }
    }

    /// What is left. The module divides by microseconds rounded down, and so may say too much.
    fn left(&self, limit: &Limit) -> u64 {
        let max = u128::from(limit.max().max(1));
        let window = u128::from(limit.window_us());
        let left = u128::from(self.remaining) * (window / max) * max / window;
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    fn verdict(&self, limit: &Limit, left: u64, cost: u64) -> Verdict {
        let reset = (self.reset_after + 1) * SECOND;
        if self.allowed {
            let whole = if left >= limit.capacity() && self.reset_after == 0 { 0 } else { reset };
            return Verdict { remaining: left, reset_after_us: whole, ..Verdict::admitted() };
        }
        // At most what is missing takes to drain, and never less than the module said.
        let missing = u128::from(cost.saturating_sub(left)) * u128::from(limit.window_us());
        let drained = u64::try_from(missing.div_ceil(u128::from(limit.max().max(1)))).unwrap_or(u64::MAX);
        let said = self.retry_after * SECOND;
        let retry = drained.min(said + SECOND).max(said).max(1);
        let reset_after_us = reset.max(retry);
        Verdict { remaining: left, retry_after_us: retry, reset_after_us, ..Verdict::refused() }.rounded_up()
    }
}

#[cfg(any(test, fuzzing))]
pub(super) fn read(reply: &Value, request: &Request<'_>) {
    if let (Some(said), Some(limit)) = (Throttle::of(reply), request.limits().first()) {
        let _ = said.looked_at(request, limit);
        let _ = said.verdict(limit, said.left(limit), request.cost());
    }
}

fn refused(error: &ServerError) -> StoreError {
    if error.details().is_some_and(|details| details.contains("unknown command")) {
        return StoreError::misconfigured(
            "the Redis server has not loaded redis-cell: load it, or choose RedisMode::Scripts",
        );
    }
    errors::from_server(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;

    #[test]
    fn keys_are_utf8() {
        let key = |bytes: &[u8]| String::from_utf8(key(&Request::new(bytes, Algorithm::LeakyBucket, &[])));
        assert_eq!(key(b"rl2:lb-60s:a:<x>").as_deref(), Ok("rl2:lb-60s:a:<x>%cell"));
        assert_eq!(key(b"a\xff").as_deref(), Ok("61ff%cellhex"));
    }
}

//! The fixed window without scripts: a counter that starts with its expiry, and is raised only as
//! far as the limit.
//!
//! The key holds 16 bytes: what is used, and a number that tells this window from the next, both as
//! big-endian integers. Redis ends the window by expiring the key, on a whole millisecond.

use std::hash::{BuildHasher, RandomState};

use redis::{Cmd, Pipeline, Value, cmd};

use super::reply;
use super::transaction::{self, Plan};
use crate::error::StoreError;
use crate::rule::Limit;
use crate::store::redis::errors::{foreign_key, unexpected_reply};
use crate::store::redis::topology::Calls;
use crate::store::{Request, Verdict};

/// The largest value of the field: of 63 bits, beside the sign.
const TOP: u64 = (1 << 63) - 1;
const USED: &str = "1";
const WINDOW: &str = "65";

pub(super) async fn acquire(calls: Calls<'_>, request: &Request<'_>, limit: &Limit) -> Result<Verdict, StoreError> {
    if request.cost() == 0 {
        return peek(calls, request, limit).await;
    }
    let key = super::counter_key(request);
    // Adding up to the brim, and taking that away again, fails in the first step if the call does
    // not fit, and then in the second. What is used is at most 2^53, so neither can fail without
    // the other.
    let spare = TOP - max(limit);
    let mut commands = Pipeline::with_capacity(4);
    commands.cmd("TIME");
    commands.cmd("SET").arg(&key).arg(&fresh()[..]).arg("PX").arg(millis(limit)).arg("NX");
    commands.cmd("BITFIELD").arg(&key).arg("OVERFLOW").arg("FAIL");
    commands.arg("INCRBY").arg("u63").arg(USED).arg(spare + request.cost().min(max(limit)));
    commands.arg("INCRBY").arg("u63").arg(USED).arg(format!("-{spare}"));
    commands.arg("GET").arg("u63").arg(USED).arg("GET").arg("u63").arg(WINDOW);
    commands.cmd("PTTL").arg(&key);
    let replies = calls.send_all(&commands).await?;
    let [time, _, Value::Array(fields), left] = replies.as_slice() else { return Err(unexpected_reply()) };
    let [raised, _, used, window] = fields.as_slice() else { return Err(unexpected_reply()) };
    let allowed = !matches!(raised, Value::Nil);
    let state = State { time, used: reply::count(used).ok_or_else(unexpected_reply)?, left };
    let ticket = if allowed { reply::count(window).ok_or_else(unexpected_reply)? } else { 0 };
    let verdict = state.verdict(limit, allowed).ok_or_else(unexpected_reply)?;
    state.mend(calls, &key, limit).await;
    Ok(verdict.with_ticket(ticket))
}

pub(super) async fn peek(calls: Calls<'_>, request: &Request<'_>, limit: &Limit) -> Result<Verdict, StoreError> {
    let key = super::counter_key(request);
    let mut commands = Pipeline::with_capacity(3);
    commands.cmd("TIME").cmd("GET").arg(&key).cmd("PTTL").arg(&key);
    let replies = calls.send_all(&commands).await?;
    let [time, value, left] = replies.as_slice() else { return Err(unexpected_reply()) };
    let used = used(value)?;
    let state = State { time, used, left };
    state.verdict(limit, fits(used, request, limit)).ok_or_else(unexpected_reply)
}

/// Gives back to the window that was charged, and to no other.
pub(super) async fn refund(calls: Calls<'_>, request: &Request<'_>, ticket: u64) -> Result<bool, StoreError> {
    let key = super::counter_key(request);
    let mut get = cmd("GET");
    get.arg(&key);
    let decide = |replies: &[Value]| {
        let mut commands = Vec::new();
        let counter = match replies {
            [Value::Nil] => None,
            [value] => Some(Counter::of(value)?),
            _ => return Err(unexpected_reply()),
        };
        let counter = counter.filter(|counter| counter.window == ticket && counter.used > 0);
        if let Some(counter) = &counter {
            commands.push(match counter.used.saturating_sub(request.cost()) {
                // As everywhere, the next call then begins a window of its own.
                0 => cmd("UNLINK").arg(&key).take(),
                used => set_used(&key, used),
            });
        }
        Ok(Plan { commands, decided: counter.is_some() })
    };
    transaction::run(calls, &[&key], &[get], decide, |done, _| Some(done)).await
}

/// Overwrites a part of the value, which leaves its expiry as it is.
fn set_used(key: &[u8], used: u64) -> Cmd {
    let mut command = cmd("SETRANGE");
    command.arg(key).arg(0).arg(&used.to_be_bytes()[..]);
    command
}

fn used(value: &Value) -> Result<u64, StoreError> {
    match value {
        Value::Nil => Ok(0),
        value => Counter::of(value).map(|counter| counter.used),
    }
}

fn fits(used: u64, request: &Request<'_>, limit: &Limit) -> bool {
    used.saturating_add(request.cost()) <= max(limit)
}

fn max(limit: &Limit) -> u64 {
    limit.max().max(1)
}

fn millis(limit: &Limit) -> u64 {
    limit.window_us().div_ceil(1000)
}

/// A window in which nothing is used, and which no other has the number of.
fn fresh() -> [u8; 16] {
    let window = RandomState::new().hash_one(0) & Limit::MAX_COUNT;
    u128::from(window.max(1)).to_be_bytes()
}

struct Counter {
    used: u64,
    window: u64,
}

impl Counter {
    fn of(value: &Value) -> Result<Self, StoreError> {
        let bytes = reply::bytes(value).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        let both = u128::from_be_bytes(bytes.ok_or_else(foreign_key)?);
        #[allow(clippy::cast_possible_truncation, reason = "the halves")]
        Ok(Self { used: (both >> 64) as u64, window: both as u64 })
    }
}

/// What the server says at one moment.
struct State<'a> {
    time: &'a Value,
    used: u64,
    left: &'a Value,
}

impl State<'_> {
    fn verdict(&self, limit: &Limit, allowed: bool) -> Option<Verdict> {
        // A key lives until its last millisecond is over.
        let left = match reply::integer(self.left)? {
            -2 => 0,
            -1 => limit.window_us(),
            // After the clock has stepped back, it lives too long until `mend` has been heard.
            left => (u64::try_from(left).ok()?.min(millis(limit)) + 1) * 1000 - reply::time(self.time)? % 1000,
        };
        let remaining = max(limit).saturating_sub(self.used);
        let reset_after_us = if self.used == 0 { 0 } else { left };
        let retry_after_us = if allowed { 0 } else { left };
        Some(Verdict { allowed, remaining, retry_after_us, reset_after_us, ..Verdict::admitted() })
    }

    /// Where the clock has stepped back, the window lasts no longer than if it had begun now. If
    /// that cannot be said, the next call says it.
    async fn mend(&self, calls: Calls<'_>, key: &[u8], limit: &Limit) {
        let left = reply::integer(self.left).unwrap_or_default();
        if !u64::try_from(left).is_ok_and(|left| left <= millis(limit)) {
            let mut expire = cmd("PEXPIRE");
            expire.arg(key).arg(millis(limit));
            let _ = calls.send(&expire, |reply| matches!(reply, Value::Int(_))).await;
        }
    }
}

#[cfg(any(test, fuzzing))]
pub(super) fn read(replies: &[Value], request: &Request<'_>) {
    let ([value, time, left, ..], [limit, ..]) = (replies, request.limits()) else { return };
    if let Ok(used) = used(value) {
        let _ = State { time, used, left }.verdict(limit, fits(used, request, limit));
    }
}

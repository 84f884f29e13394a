//! Limits without scripts: exact sliding windows in optimistic transactions, which read under
//! `WATCH`, decide here, and write in `MULTI … EXEC`; and fixed windows in one transaction.
//!
//! A process that dies halfway leaves nothing behind: until `EXEC` nothing is written, and `EXEC`
//! writes all of it. A failure that is a redirect of a cluster is left to the caller, which asks
//! the pool of the other server.

use redis::{Value, cmd, from_redis_value_ref};

use super::batcher::Failure;
use super::errors::{foreign_key, refuse, unexpected_reply};
use super::scripts::{Operation, own_time};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::{BlockDuration, Limit};
use crate::store::{Request, Verdict};

mod fixed_window;
mod log;
mod member;
mod pool;

pub(crate) use self::fixed_window::{PLAIN, count, counter_key, refund};
use self::log::{StoredLog, Time};
use self::pool::Lent;
pub(crate) use self::pool::Pool;

/// Whether a log without scripts can keep the request.
///
/// # Errors
///
/// `Unsupported`, with what to choose instead.
pub(super) fn supports_log(request: &Request<'_>) -> Result<(), StoreError> {
    refuse(
        &[(request.is_reservation(), "without scripts, a sliding window has no reservations (`count`, `actual_cost`)")],
        "choose RedisMode::Scripts",
    )
}

/// Whether a plain counter can keep the request.
///
/// # Errors
///
/// `Unsupported`, with what to choose instead.
pub(super) fn supports_counter(request: &Request<'_>, own_clock: bool) -> Result<(), StoreError> {
    refuse(
        &[
            (own_clock, "a fixed window without scripts goes by the server's clock"),
            (request.limits().len() > 1, "a fixed window without scripts has one limit"),
            (request.has_calendar(), "a fixed window without scripts has no calendar periods"),
            (request.is_reservation(), "a fixed window without scripts has no reservations (`count`)"),
            (request.block_duration() != BlockDuration::NONE, "a fixed window without scripts has no blocks"),
        ],
        "choose RedisMode::Scripts, or sliding_window",
    )
}

/// Decides a request on a log: acquires, or peeks.
///
/// `clock` is the caller's; without one the server's is used. `asking` puts an `ASKING` before what
/// is sent.
pub(crate) async fn decide(
    pool: &Pool,
    asking: bool,
    clock: Option<&dyn Clock>,
    acquires: bool,
    request: Request<'_>,
) -> Result<Verdict, Failure> {
    let mut lent = pool.lend(request.key(), asking).await?;
    loop {
        let mut log = look(&mut lent, clock, request).await?;
        if log.has_reservations() {
            let replies = lent.read(log.counts()).await?;
            log.count(&replies).ok_or_else(|| Failure::NotSent(unexpected_reply()))?;
        }
        // Counted before anything is written.
        let lacks_counts = log.lacks_counts();
        let (mut commands, mut ticket) = (if lacks_counts { log.counts() } else { Vec::new() }, 0);
        if acquires && log.admits() {
            ticket = log.charge(&mut commands);
        } else if acquires {
            log.offend(&mut commands);
        }
        // Reads in several steps hold together only if nothing has changed since.
        if !commands.is_empty() || log.has_reservations() {
            let Some(replies) = lent.execute(commands).await? else { continue };
            if lacks_counts {
                log.count(&replies).ok_or_else(|| Failure::Lost(unexpected_reply().lost()))?;
            }
        }
        return Ok(log.verdict(ticket));
    }
}

/// Refunds, blocks or unblocks the log of one key; says whether there was anything to change.
pub(crate) async fn change(
    pool: &Pool,
    asking: bool,
    clock: Option<&dyn Clock>,
    operation: Operation,
    request: Request<'_>,
) -> Result<bool, Failure> {
    let mut lent = pool.lend(request.key(), asking).await?;
    loop {
        let log = look(&mut lent, clock, request).await?;
        let (mut commands, mut done) = (Vec::new(), true);
        match operation {
            Operation::Refund(ticket) => log.refund(ticket, &mut commands),
            Operation::Block(duration) => log.block(duration, &mut commands),
            _ => done = log.unblock(&mut commands),
        }
        let is_refund = matches!(operation, Operation::Refund(_));
        if commands.is_empty() {
            return Ok(done && !is_refund);
        }
        if let Some(replies) = lent.execute(commands).await? {
            return Ok(done && !(is_refund && replies.last() == Some(&Value::Int(0))));
        }
    }
}

/// Reads the log.
async fn look<'a>(
    lent: &mut Lent<'_>,
    clock: Option<&dyn Clock>,
    request: Request<'a>,
) -> Result<StoredLog<'a>, Failure> {
    let reads = [cmd("TIME")].into_iter().chain(log::reads(&request)).collect();
    let replies = lent.watch(request.key(), reads).await?;
    let unexpected = || Failure::NotSent(unexpected_reply());
    let (time, replies) = replies.split_first().ok_or_else(unexpected)?;
    let time = match own_time(clock).map_err(Failure::NotSent)? {
        Some(now) => Time { now, is_servers: false },
        None => Time { now: servers(time).ok_or_else(unexpected)?, is_servers: true },
    };
    StoredLog::of(request, time, replies).ok_or_else(|| Failure::NotSent(foreign_key()))
}

/// The reply to `TIME`, in microseconds.
fn servers(time: &Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = from_redis_value_ref(time).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros).filter(|time| *time <= Limit::MAX_COUNT)
}

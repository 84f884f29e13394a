//! Limits without scripts: exact sliding windows in optimistic transactions, which read under
//! `WATCH`, decide here, and write in `MULTI … EXEC`; and fixed windows in one transaction.
//!
//! A process that dies halfway leaves nothing behind: until `EXEC` nothing is written, and `EXEC`
//! writes all of it. A failure that is a redirect of a cluster is left to the caller, which asks
//! the pool of the other server.

use redis::{Cmd, Value, cmd};

use super::batcher::Failure;
use super::errors::{foreign_key, refuse, unexpected_reply};
use super::scripts::{Operation, own_time};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::BlockDuration;
use crate::store::{Request, Verdict};

mod fixed_window;
mod log;
mod member;
mod pool;
mod reply;

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

/// Decides requests on logs of different keys: acquires all of them or none, or peeks.
///
/// `clock` is the caller's; without one the server's is used. `asking` puts an `ASKING` before what
/// is sent.
pub(crate) async fn decide(
    pool: &Pool,
    asking: bool,
    clock: Option<&dyn Clock>,
    operation: Operation,
    requests: &[Request<'_>],
) -> Result<Vec<Verdict>, Failure> {
    let acquires = matches!(operation, Operation::Acquire);
    let keys: Vec<&[u8]> = requests.iter().map(Request::key).collect();
    let until = requests.iter().filter_map(Request::timeout_at).min();
    let mut lent = pool.lend(&keys, asking, until).await?;
    loop {
        let mut logs = look(&mut lent, &keys, clock, requests).await?;
        let has_reservations = logs.iter().any(StoredLog::has_reservations);
        if has_reservations {
            let replies = lent.read(counts(&logs)).await?;
            count_all(&mut logs, &replies).ok_or_else(|| Failure::NotSent(unexpected_reply()))?;
        }
        // Counted before anything is written.
        let lacks_counts = logs.iter().any(StoredLog::lacks_counts);
        let mut commands = if lacks_counts { counts(&logs) } else { Vec::new() };
        let mut tickets = vec![0; logs.len()];
        if acquires && logs.iter().all(StoredLog::admits) {
            for (log, ticket) in logs.iter().zip(&mut tickets) {
                *ticket = log.charge(&mut commands);
            }
        } else if acquires {
            for log in &mut logs {
                log.offend(&mut commands);
            }
        }
        // What was read in several steps holds only if nothing has changed since.
        if !commands.is_empty() || has_reservations {
            let Some(replies) = lent.execute(commands).await? else { continue };
            if lacks_counts {
                count_all(&mut logs, &replies).ok_or_else(|| Failure::Lost(unexpected_reply().lost()))?;
            }
        }
        return Ok(logs.iter().zip(tickets).map(|(log, ticket)| log.verdict(ticket)).collect());
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
    let mut lent = pool.lend(&[request.key()], asking, request.timeout_at()).await?;
    loop {
        let (mut commands, mut done) = (Vec::new(), true);
        for log in look(&mut lent, &[request.key()], clock, &[request]).await? {
            match operation {
                Operation::Refund(ticket) => log.refund(ticket, &mut commands),
                Operation::Block(duration) => log.block(duration, &mut commands),
                _ => done = log.unblock(&mut commands),
            }
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

/// Reads the logs.
async fn look<'a>(
    lent: &mut Lent<'_>,
    keys: &[&[u8]],
    clock: Option<&dyn Clock>,
    requests: &[Request<'a>],
) -> Result<Vec<StoredLog<'a>>, Failure> {
    let mut reads = vec![cmd("TIME")];
    for request in requests {
        log::reads(request, &mut reads);
    }
    let replies = lent.watch(keys, reads).await?;
    let unexpected = || Failure::NotSent(unexpected_reply());
    let (time, mut replies) = replies.split_first().ok_or_else(unexpected)?;
    let time = match own_time(clock).map_err(Failure::NotSent)? {
        Some(now) => Time { now, is_servers: false },
        None => Time { now: reply::time(time).ok_or_else(unexpected)?, is_servers: true },
    };
    let of_request = |request| StoredLog::of(request, time, &mut replies);
    let logs: Option<Vec<_>> = requests.iter().copied().map(of_request).collect();
    logs.ok_or_else(|| Failure::NotSent(foreign_key()))
}

fn counts(logs: &[StoredLog<'_>]) -> Vec<Cmd> {
    let mut commands = Vec::new();
    for log in logs {
        log.counts(&mut commands);
    }
    commands
}

fn count_all(logs: &mut [StoredLog<'_>], mut replies: &[Value]) -> Option<()> {
    logs.iter_mut().try_for_each(|log| log.count(&mut replies))
}

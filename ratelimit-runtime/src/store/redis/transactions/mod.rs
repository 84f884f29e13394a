//! Limits without scripts: exact sliding windows in optimistic transactions, which read under
//! `WATCH`, decide here, and write in `MULTI … EXEC`; and fixed windows in one transaction.
//!
//! A process that dies halfway leaves nothing behind: until `EXEC` nothing is written, and `EXEC`
//! writes all of it. A failure that is a redirect of a cluster is left to the caller, which asks
//! the link of the other server.

use redis::{Cmd, Value, cmd, from_redis_value_ref};

use super::batcher::Failure;
use super::errors::{foreign_key, unexpected_reply};
use super::link::Link;
use super::scripts::{Operation, own_time};
use crate::clock::Clock;
use crate::rule::{Limit, PlainCommands};
use crate::store::{Request, Verdict};

mod fixed_window;
mod lent;
mod log;

use self::lent::Lent;
use self::log::StoredLog;

/// The time of a decision.
#[derive(Debug, Clone, Copy)]
struct Time {
    /// In microseconds.
    now: u64,
    /// How much longer keys live: a second where it is the caller's time, which may be coarse or
    /// late.
    slack_ms: u64,
}

/// Decides, and charges the request if it is admitted and the operation acquires; or gives back,
/// where `allowed` says whether there was anything.
///
/// `clock` is the caller's; without one the server's is used. `asking` puts an `ASKING` before what
/// is sent.
pub(crate) async fn carry_out(
    link: &Link,
    asking: bool,
    clock: Option<&dyn Clock>,
    kept: PlainCommands,
    operation: Operation,
    (key, request): (&[u8], Request<'_>),
) -> Result<Verdict, Failure> {
    let acquires = matches!(operation, Operation::Acquire);
    if kept == PlainCommands::Counter {
        return fixed_window::count(link, asking, acquires, key, &request).await;
    }
    let mut lent = Lent::by(link, key, asking).await?;
    loop {
        let log = look(&mut lent, clock, key, request).await?;
        let done = match operation {
            Operation::Refund(ticket) => refund(&mut lent, &log, ticket).await?,
            _ => decide(&mut lent, log, acquires).await?,
        };
        if let Some(verdict) = done {
            return Ok(verdict);
        }
    }
}

/// Gives back a charge. `None` if the log has changed since.
async fn refund(lent: &mut Lent<'_>, log: &StoredLog<'_>, ticket: u64) -> Result<Option<Verdict>, Failure> {
    let commands = log.refund(ticket);
    let found = |any| Some(Verdict { allowed: any, ..Verdict::admitted() });
    if commands.is_empty() {
        return Ok(found(false));
    }
    let replies = lent.execute(commands).await?;
    Ok(replies.and_then(|replies| found(replies.last() != Some(&Value::Int(0)))))
}

/// Decides, and charges the request if it is admitted and `acquires`. `None` if the log has changed
/// since.
async fn decide(lent: &mut Lent<'_>, mut log: StoredLog<'_>, acquires: bool) -> Result<Option<Verdict>, Failure> {
    // Counted before anything is written.
    let needs_counts = log.needs_counts();
    let (mut commands, mut ticket) = (if needs_counts { log.counts() } else { Vec::new() }, 0);
    if acquires && log.admits() {
        ticket = log.charge(&mut commands);
    }
    if !commands.is_empty() {
        let Some(replies) = lent.execute(commands).await? else { return Ok(None) };
        if needs_counts {
            log.count(&replies).ok_or_else(|| Failure::Other(unexpected_reply().lost()))?;
        }
    }
    Ok(Some(log.verdict(ticket)))
}

/// Reads the log.
async fn look<'a>(
    lent: &mut Lent<'_>,
    clock: Option<&dyn Clock>,
    key: &'a [u8],
    request: Request<'a>,
) -> Result<StoredLog<'a>, Failure> {
    let reads: Vec<Cmd> = [cmd("TIME")].into_iter().chain(log::reads(key, &request)).collect();
    let replies = lent.watch(key, reads).await?;
    let unexpected = || Failure::Other(unexpected_reply());
    let (time, replies) = replies.split_first().ok_or_else(unexpected)?;
    let time = match own_time(clock)? {
        Some(now) => Time { now, slack_ms: 1_000 },
        None => Time { now: servers(time).ok_or_else(unexpected)?, slack_ms: 0 },
    };
    StoredLog::of(key, request, time, replies).ok_or_else(|| Failure::Other(foreign_key()))
}

/// The reply to `TIME`, in microseconds.
fn servers(time: &Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = from_redis_value_ref(time).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros).filter(|time| *time <= Limit::MAX_COUNT)
}

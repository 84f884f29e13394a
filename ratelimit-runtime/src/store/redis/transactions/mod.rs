//! Limits without scripts: exact sliding windows in optimistic transactions, which read under
//! `WATCH`, decide here, and write in `MULTI … EXEC`; and fixed windows in one transaction.
//!
//! A process that dies halfway leaves nothing behind: until `EXEC` nothing is written, and `EXEC`
//! writes all of it. Redirects of a cluster are returned as failures; the cluster then asks the
//! other node.

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
    /// How much longer than needed keys live: 1,000 with a clock of the caller, which may be coarse
    /// or behind the server's; else 0.
    slack_ms: u64,
}

/// Carries out `Acquire`, `Peek` or `Refund` on a log or a counter. After a refund, `allowed` says
/// whether it removed any unit.
///
/// Without `clock`, the time is the server's. `asking` puts `ASKING` before each command.
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

/// Gives back a charge. `None` if the log has changed since it was read.
async fn refund(
    lent: &mut Lent<'_>,
    log: &StoredLog<'_>,
    ticket: u64,
) -> Result<Option<Verdict>, Failure> {
    let commands = log.refund(ticket);
    let found = |any| {
        Some(Verdict {
            allowed: any,
            ..Verdict::admitted()
        })
    };
    if commands.is_empty() {
        return Ok(found(false));
    }
    let replies = lent.execute(commands).await?;
    Ok(replies.and_then(|replies| found(replies.last() != Some(&Value::Int(0)))))
}

/// Decides, and with `acquires` charges the request if it is admitted. `None` if the log has
/// changed since it was read.
async fn decide(
    lent: &mut Lent<'_>,
    mut log: StoredLog<'_>,
    acquires: bool,
) -> Result<Option<Verdict>, Failure> {
    // The counts come first in the transaction: they are those before the charge.
    let needs_counts = log.needs_counts();
    let (mut commands, mut ticket) = (
        if needs_counts {
            log.counts()
        } else {
            Vec::new()
        },
        0,
    );
    if acquires && log.admits() {
        ticket = log.charge(&mut commands);
    }
    if !commands.is_empty() {
        let Some(replies) = lent.execute(commands).await? else {
            return Ok(None);
        };
        if needs_counts {
            log.count(&replies)
                .ok_or_else(|| Failure::Other(unexpected_reply().lost()))?;
        }
    }
    Ok(Some(log.verdict(ticket)))
}

/// Reads the log, and watches its key.
async fn look<'a>(
    lent: &mut Lent<'_>,
    clock: Option<&dyn Clock>,
    key: &'a [u8],
    request: Request<'a>,
) -> Result<StoredLog<'a>, Failure> {
    let reads: Vec<Cmd> = [cmd("TIME")]
        .into_iter()
        .chain(log::reads(key, &request))
        .collect();
    let replies = lent.watch(key, reads).await?;
    let unexpected = || Failure::Other(unexpected_reply());
    let (time, replies) = replies.split_first().ok_or_else(unexpected)?;
    let time = match own_time(clock)? {
        Some(now) => Time {
            now,
            slack_ms: 1_000,
        },
        None => Time {
            now: servers(time).ok_or_else(unexpected)?,
            slack_ms: 0,
        },
    };
    StoredLog::of(key, request, time, replies).ok_or_else(|| Failure::Other(foreign_key()))
}

/// The server's time in microseconds, from the reply to `TIME`.
fn servers(time: &Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = from_redis_value_ref(time).ok()?;
    seconds
        .checked_mul(1_000_000)?
        .checked_add(micros)
        .filter(|time| *time <= Limit::MAX_COUNT)
}

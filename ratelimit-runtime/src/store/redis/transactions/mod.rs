//! Limits without scripts: exact sliding windows in optimistic transactions, which read under
//! `WATCH`, decide here, and write in `MULTI … EXEC`; and fixed windows in one transaction.
//!
//! A process that dies halfway leaves nothing behind: until `EXEC` nothing is written, and `EXEC`
//! writes all of it. Redirects of a cluster are returned as failures; the cluster then asks the
//! other node.

use std::time::{Duration, Instant};

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

/// By how much more than a round trip a charge is dated ahead. It doubles each time that this was
/// too little.
const SPARE: Duration = Duration::from_millis(1);

/// The time of a decision.
#[derive(Debug, Clone, Copy)]
struct Time {
    /// In microseconds.
    now: u64,
    /// By how much a charge is dated ahead: the time until `EXEC`, most often; 0 by a clock of the
    /// caller.
    ahead: u64,
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
    let (mut late, mut spare) = (None, SPARE);
    loop {
        let log = look(&mut lent, clock, key, request, spare).await?;
        let done = match (operation, late) {
            (Operation::Refund(ticket), _) => refund(&mut lent, &log, ticket).await?,
            (_, Some(ticket)) => {
                if refund(&mut lent, &log, ticket).await?.is_some() {
                    (late, spare) = (None, spare * 2);
                }
                continue;
            }
            _ => match decide(&mut lent, log, acquires).await? {
                Attempt::Decided(verdict) => Some(verdict),
                Attempt::Changed => None,
                Attempt::Late(ticket) => {
                    late = Some(ticket);
                    continue;
                }
            },
        };
        if let Some(verdict) = done {
            return Ok(verdict);
        }
    }
}

/// What came of an attempt to decide.
enum Attempt {
    Decided(Verdict),
    /// The log has changed since it was read.
    Changed,
    /// The charge that begins with this ticket ran after it, and is to be given back.
    Late(u64),
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

/// Decides, and with `acquires` charges the request if it is admitted.
async fn decide(
    lent: &mut Lent<'_>,
    mut log: StoredLog<'_>,
    acquires: bool,
) -> Result<Attempt, Failure> {
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
    let counts = commands.len();
    if acquires && log.admits() {
        ticket = log.charge(&mut commands);
    }
    if !commands.is_empty() {
        let Some(replies) = lent.execute(commands).await? else {
            return Ok(Attempt::Changed);
        };
        let unexpected = || Failure::Other(unexpected_reply().lost());
        if needs_counts {
            log.count(&replies).ok_or_else(unexpected)?;
        }
        if ticket > 0 {
            let ran = replies.get(counts).ok_or_else(unexpected)?;
            if log.is_late(ticket, ran).ok_or_else(unexpected)? {
                return Ok(Attempt::Late(ticket));
            }
        }
    }
    Ok(Attempt::Decided(log.verdict(ticket)))
}

/// Reads the log, and watches its key. A charge is dated ahead by a quarter more than the reads
/// took, and by `spare`.
async fn look<'a>(
    lent: &mut Lent<'_>,
    clock: Option<&dyn Clock>,
    key: &'a [u8],
    request: Request<'a>,
    spare: Duration,
) -> Result<StoredLog<'a>, Failure> {
    let asked = Instant::now();
    let reads: Vec<Cmd> = [cmd("TIME")]
        .into_iter()
        .chain(log::reads(key, &request))
        .collect();
    let replies = lent.watch(key, reads).await?;
    let took = asked.elapsed();
    let unexpected = || Failure::Other(unexpected_reply());
    let (time, replies) = replies.split_first().ok_or_else(unexpected)?;
    let time = match own_time(clock)? {
        Some(now) => Time {
            now,
            ahead: 0,
            slack_ms: 1_000,
        },
        None => Time {
            now: servers(time).ok_or_else(unexpected)?,
            ahead: u64::try_from((took + took / 4 + spare).as_micros()).unwrap_or(u64::MAX),
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

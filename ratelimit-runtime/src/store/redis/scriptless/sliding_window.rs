//! The exact sliding window without scripts: optimistic transactions, which read under `WATCH`,
//! decide here, and write in `MULTI … EXEC`.
//!
//! A process that dies halfway leaves nothing behind: until `EXEC` nothing is written, and `EXEC`
//! writes all of it. Redirects of a cluster are failures; the cluster then asks the other node.

use std::time::{Duration, Instant};

use redis::{Cmd, Value, cmd};

use super::lent::Lent;
use super::log::{self, StoredLog, servers};
use crate::clock::Clock;
use crate::store::redis::batcher::Failure;
use crate::store::redis::errors::{foreign_key, unexpected_reply};
use crate::store::redis::link::Link;
use crate::store::redis::scripts::{Operation, own_time};
use crate::store::{Request, Verdict};

/// The time by which a charge is dated further ahead than a round trip. It doubles each time that
/// this was too little.
const SPARE: Duration = Duration::from_millis(1);

/// Carries out `Acquire`, `Peek` or `Refund`, which allows if it has changed anything.
///
/// Without `clock`, the time is the server's. `asking` puts `ASKING` before each command.
pub(super) async fn carry_out(
    link: &Link,
    asking: bool,
    clock: Option<&dyn Clock>,
    operation: Operation,
    at: (&[u8], Request<'_>),
) -> Result<Verdict, Failure> {
    let acquires = matches!(operation, Operation::Acquire);
    let mut lent = Lent::by(link, at.0, asking).await?;
    let mut spare = SPARE;
    // A charge to give back: the first unit's ticket.
    let mut back = match operation {
        Operation::Refund(ticket) => Some(ticket),
        _ => None,
    };
    loop {
        let log = look(&mut lent, clock, at, spare).await?;
        let Some(ticket) = back else {
            match decide(&mut lent, log, acquires).await? {
                Attempt::Decided(verdict) => return Ok(verdict),
                Attempt::Changed => {}
                Attempt::Late(ticket) => back = Some(ticket),
            }
            continue;
        };
        let Some(is_changed) = refund(&mut lent, &log, ticket).await? else {
            continue;
        };
        if !acquires {
            return Ok(Verdict {
                allowed: is_changed,
                ..Verdict::refused()
            });
        }
        (back, spare) = (None, spare * 2);
    }
}

/// The outcome of an attempt to decide.
enum Attempt {
    Decided(Verdict),
    /// The log has changed since it was read.
    Changed,
    /// The charge was written later than its first ticket, this one, and must be given back.
    Late(u64),
}

/// Gives back a charge. `true` if a unit was removed; `None` if the log has changed since read.
async fn refund(
    lent: &mut Lent<'_>,
    log: &StoredLog<'_>,
    ticket: u64,
) -> Result<Option<bool>, Failure> {
    let commands = log.refund(ticket);
    if commands.is_empty() {
        return Ok(Some(false));
    }
    let replies = lent.execute(commands).await?;
    Ok(replies.map(|replies| replies.last() != Some(&Value::Int(0))))
}

/// Decides the request, and charges it if it is admitted and `acquires`.
async fn decide(
    lent: &mut Lent<'_>,
    mut log: StoredLog<'_>,
    acquires: bool,
) -> Result<Attempt, Failure> {
    // The counts come first in the transaction: they are those before the charge.
    let needs_counts = log.needs_counts();
    let mut commands = if needs_counts {
        log.counts()
    } else {
        Vec::new()
    };
    let (counts, mut ticket) = (commands.len(), 0);
    if acquires && log.admits() {
        ticket = log.charge(&mut commands);
    }
    if !commands.is_empty() {
        let Some(replies) = lent.execute(commands).await? else {
            return Ok(Attempt::Changed);
        };
        let unexpected = || unexpected_reply().lost();
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
    (key, request): (&'a [u8], Request<'a>),
    spare: Duration,
) -> Result<StoredLog<'a>, Failure> {
    lent.connect().await?;
    let asked = Instant::now();
    let reads: Vec<Cmd> = [cmd("TIME")]
        .into_iter()
        .chain(log::reads(key, &request))
        .collect();
    let replies = lent.watch(reads).await?;
    let took = asked.elapsed();
    let (time, replies) = replies.split_first().ok_or_else(unexpected_reply)?;
    let time = match own_time(clock)? {
        Some(now) => (now, 0),
        None => (
            servers(time).ok_or_else(unexpected_reply)?,
            u64::try_from((took + took / 4 + spare).as_micros()).unwrap_or(u64::MAX),
        ),
    };
    Ok(StoredLog::of(key, request, time, replies).ok_or_else(foreign_key)?)
}

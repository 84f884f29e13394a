//! What a server does for limits without running scripts: exact sliding windows in optimistic
//! transactions, and fixed windows in one.

use redis::{Value, cmd};

use super::errors::{foreign_key, refuse, unexpected_reply, unsupported};
use super::scripts::operation::Operation;
use super::topology::Calls;
use crate::error::StoreError;
use crate::rule::BlockDuration;
use crate::store::{Request, Verdict};

mod fixed_window;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod lifetime;
mod log_format;
mod reply;
mod sliding_window;
mod transaction;

use lifetime::Time;
use sliding_window::LogState;
use transaction::Plan;

/// The highest cost of a call: a member for each unit of it is written at once.
const MAX_COST: u64 = 1_000;

/// Whether a log that is a sorted set can keep the request.
///
/// # Errors
///
/// `Unsupported`, with what to choose `instead`.
pub(super) fn supports_log(request: &Request<'_>, instead: &str) -> Result<(), StoreError> {
    if request.is_reservation() {
        return unsupported(format!(
            "`count` needs reservations, and a log that is a sorted set cannot tell them apart: use {instead}"
        ));
    }
    if request.cost() > MAX_COST {
        return unsupported(format!(
            "a call of cost {} is above {MAX_COST}, the most that a log as a sorted set takes: use {instead}",
            request.cost()
        ));
    }
    Ok(())
}

/// Whether a plain counter can keep the request.
///
/// # Errors
///
/// `Unsupported`, with what to choose instead.
pub(super) fn supports_counter(request: &Request<'_>, own_clock: bool) -> Result<(), StoreError> {
    const INSTEAD: &str = "choose RedisMode::Scripts, or sliding_window";
    refuse(
        &[
            (own_clock, "a fixed window without scripts goes by the server's clock"),
            (request.limits().len() > 1, "a fixed window without scripts has one limit"),
            (request.has_calendar(), "a fixed window without scripts has no calendar periods"),
            (request.is_reservation(), "`count` needs reservations, and a fixed window without scripts has none"),
            (request.block_duration() != BlockDuration::NONE, "a fixed window without scripts has no blocks"),
        ],
        INSTEAD,
    )
}

/// What the key of a fixed window ends in.
pub(super) const PLAIN: &[u8] = b"%plain";

/// The key of a fixed window: the counter is not the state that scripts keep.
pub(super) fn counter_key(request: &Request<'_>) -> Vec<u8> {
    [request.key(), PLAIN].concat()
}

/// Fixed windows.
pub(super) async fn fixed_window(
    calls: Calls<'_>,
    operation: Operation,
    request: &Request<'_>,
) -> Result<Verdict, StoreError> {
    let [limit] = request.limits() else { return Err(unexpected_reply()) };
    match operation {
        Operation::Peek => fixed_window::peek(calls, request, limit).await,
        _ => fixed_window::acquire(calls, request, limit).await,
    }
}

pub(super) async fn refund_fixed_window(
    calls: Calls<'_>,
    request: &Request<'_>,
    ticket: u64,
) -> Result<bool, StoreError> {
    fixed_window::refund(calls, request, ticket).await
}

/// Sliding windows. The requests are on different keys; all of them are charged, or none. `now` is
/// the caller's clock, or `None` for the server's.
pub(super) async fn decide<'a>(
    calls: Calls<'_>,
    now: impl Fn() -> Result<Option<u64>, StoreError>,
    operation: Operation,
    requests: &[Request<'a>],
) -> Result<Vec<Verdict>, StoreError> {
    let acquires = matches!(operation, Operation::Acquire);
    let decide = |states: Vec<LogState<'a>>| {
        let mut commands = Vec::new();
        let charge = acquires && states.iter().all(LogState::admits);
        let decided = states.into_iter().map(|state| state.decide(charge, acquires, &mut commands));
        let decided: Vec<_> = decided.collect();
        if !commands.is_empty() || decided.iter().any(sliding_window::OpenDecision::is_open) {
            for decided in &decided {
                decided.counts(&mut commands);
            }
        }
        Plan { commands, decided }
    };
    let limits = || requests.iter().map(|request| request.limits().len());
    let finish = |decided: Vec<sliding_window::OpenDecision<'a>>, replies: &[Value]| {
        let mut counts = replies.get(replies.len().saturating_sub(limits().sum())..)?;
        let verdict = |(decided, limits): (sliding_window::OpenDecision<'a>, usize)| {
            let (mine, others) = counts.split_at(limits.min(counts.len()));
            counts = others;
            decided.verdict(mine)
        };
        decided.into_iter().zip(limits()).map(verdict).collect()
    };
    with_states(calls, now, operation, requests, decide, finish).await
}

/// A refund, a block, or the end of one.
pub(super) async fn change(
    calls: Calls<'_>,
    now: impl Fn() -> Result<Option<u64>, StoreError>,
    operation: Operation,
    request: Request<'_>,
) -> Result<bool, StoreError> {
    let decide = |states: Vec<LogState<'_>>| match states.first() {
        Some(state) => state.change(operation),
        None => Plan { commands: Vec::new(), decided: false },
    };
    with_states(calls, now, operation, &[request], decide, |done, _| Some(done)).await
}

async fn with_states<'a, D, T>(
    calls: Calls<'_>,
    now: impl Fn() -> Result<Option<u64>, StoreError>,
    operation: Operation,
    requests: &[Request<'a>],
    decide: impl Fn(Vec<LogState<'a>>) -> Plan<D>,
    finish: impl Fn(D, &[Value]) -> Option<T>,
) -> Result<T, StoreError> {
    let keys: Vec<&[u8]> = requests.iter().map(Request::key).collect();
    let mut read = vec![cmd("TIME")];
    for request in requests {
        sliding_window::read(request, operation, &mut read);
    }
    let look = |replies: &[Value]| {
        let (time, mut replies) = replies.split_first().ok_or_else(unexpected_reply)?;
        let (source, now) = match now()? {
            Some(now) => (Time::Callers, now),
            None => (Time::Server, reply::time(time).ok_or_else(unexpected_reply)?),
        };
        let mut states = Vec::with_capacity(requests.len());
        for request in requests {
            let (mine, others) =
                replies.split_at_checked(sliding_window::reads(request)).ok_or_else(unexpected_reply)?;
            states.push(LogState::of(*request, operation, source, now, mine).ok_or_else(foreign_key)?);
            replies = others;
        }
        Ok(decide(states))
    };
    transaction::run(calls, &keys, &read, look, finish).await
}

//! The road of a check. [`decide_now`] looks at it once, and gives its outcome if that takes no
//! waiting; [`finish`] awaits it.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::task::coop;

use super::call::OwnedCall;
use super::check::{Check, Outcome};
use super::permit::CallPermits;
use super::reservations::Reservations;
use super::state::Engine;
use super::waiting;
use crate::decision::Decision;
use crate::error::RateLimitError;
use crate::store::Store as _;

/// Decides a check without waiting: asks a store in memory, and of any other store looks up whether
/// it is known to refuse. Where the check has to wait, by [`finish`], the outcome is `later`;
/// nothing has been charged then.
#[allow(
    clippy::inline_always,
    reason = "a call to it would cost more than what most checks need of it"
)]
#[inline(always)]
pub(crate) fn decide_now<T: Outcome>(
    engine: &Engine,
    check: &Check<'_>,
    later: impl FnOnce() -> T,
) -> T {
    if check.may_queue() {
        return later();
    }
    if (!engine.can_be_asked(check) || engine.fallback.may_block())
        && let Some(outcome) = outcome_before_asking(engine, check)
    {
        return T::of(outcome);
    }
    match &engine.store.own().decide_at_once(&check.request) {
        Some(verdict) => check.conclude_verdict(verdict),
        None => later(),
    }
}

/// The outcome of a check that the store is not asked for.
#[cold]
fn outcome_before_asking(
    engine: &Engine,
    check: &Check<'_>,
) -> Option<Result<Decision, RateLimitError>> {
    let decided = if engine.can_be_asked(check) {
        Ok(check.fallback_decision(&engine.fallback.blocked(check)?))
    } else {
        Err(engine.problem(check))
    };
    Some(check.conclude(decided))
}

/// Waits for the outcome of a check that could not be decided at once; for a slot, too, if its rule
/// says so.
pub(crate) async fn finish(
    engine: &Arc<Engine>,
    check: &Check<'_>,
) -> Result<Decision, RateLimitError> {
    if check.may_queue() {
        // Boxed, so that rules that do not wait have a small future.
        let group = [OwnedCall::new(Arc::clone(engine), check)];
        let (decisions, _no_permits) = Box::pin(async move { acquire_all(&group).await }).await?;
        return only(decisions);
    }
    let now = Instant::now();
    let until = now + engine.timeout_of(check);
    let mut answer = engine.store.acquire(check.request.with_timeout_at(until));
    let verdict = engine.await_until(now, until, &mut answer).await;
    let outcome = match verdict {
        Ok(verdict) => check.conclude_verdict(&verdict),
        Err(error) => {
            let decided = engine.decide_without_store(&[*check], error);
            check.conclude(decided.map_err(|refused| refused.error).and_then(only))
        }
    };
    cooperate(outcome).await
}

/// The decision on one check.
pub(crate) fn only(decisions: Vec<Decision>) -> Result<Decision, RateLimitError> {
    decisions
        .into_iter()
        .next()
        .ok_or_else(|| RateLimitError::misconfigured("nothing was asked"))
}

/// Decides several checks together, and waits for slots and places for as long as the rules that
/// refuse allow. With the decisions come the permits of those that take places.
pub(crate) async fn acquire_all(
    group: &[OwnedCall],
) -> Result<(Vec<Decision>, CallPermits), RateLimitError> {
    let outcome = match waiting::acquire(group).await {
        Ok((decided, permits)) => {
            let decided = group.iter().zip(decided);
            let decisions: Result<_, _> = decided
                .map(|(call, decided)| call.check().conclude(decided))
                .collect();
            decisions.map(|decisions| (decisions, permits))
        }
        Err(refused) => match group.get(refused.by) {
            Some(call) => call
                .check()
                .conclude(Err(refused.error))
                .map(|_| Default::default()),
            None => Err(refused.error),
        },
    };
    cooperate(outcome).await
}

/// Decides several checks together, and keeps their reservations, each in its place.
pub(crate) async fn reserve<const N: usize>(
    calls: [Option<OwnedCall>; N],
) -> Result<(Reservations<N>, CallPermits), RateLimitError> {
    let since = Instant::now();
    let places = calls.each_ref().map(Option::is_some);
    let group: Vec<OwnedCall> = calls.into_iter().flatten().collect();
    let (decisions, permits) = acquire_all(&group).await?;
    let mut decided = group.into_iter().zip(decisions);
    let reserved = places.map(|is_checked| if is_checked { decided.next() } else { None });
    Ok((Reservations::new(reserved, since), permits))
}

/// The outcome, and where that is no admission, a part of the task's cooperation budget: a caller
/// that asks again and again is answered at once each time, and must not keep its thread from other
/// tasks.
pub(crate) async fn cooperate<T>(outcome: Result<T, RateLimitError>) -> Result<T, RateLimitError> {
    if outcome.is_err() {
        poll_fn(poll_cooperative).await;
    }
    outcome
}

/// Ready, unless the task has used up its budget. Refusals are so quick that several of them are
/// the work of one unit of it.
#[inline]
pub(crate) fn poll_cooperative(cx: &mut Context<'_>) -> Poll<()> {
    const REFUSALS_PER_UNIT: u8 = 16;
    thread_local! {
        static REFUSALS: Cell<u8> = const { Cell::new(0) };
    }
    let refusals = REFUSALS.get().wrapping_add(1);
    REFUSALS.set(refusals);
    if refusals.is_multiple_of(REFUSALS_PER_UNIT) {
        poll_budget(cx)
    } else {
        Poll::Ready(())
    }
}

#[cold]
fn poll_budget(cx: &mut Context<'_>) -> Poll<()> {
    coop::poll_proceed(cx).map(|budget| budget.made_progress())
}

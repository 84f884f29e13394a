//! The check of a call: asked once, or again and again for as long as its rule waits. Its outcome is observed here, once.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::coop;

use super::acquire::Admission;
use super::asked::Asked;
use super::check::Check;
use super::group::{self, Refused};
use super::parts::Engine;
use super::wait::{self, Attempt, Attempts, Waited, Waiter};
use crate::decision::{Decision, Source, Status};
use crate::error::RateLimitError;
use crate::observe;
use crate::real_time;
use crate::rule::Limit;
use crate::store::{Health, Store as _};

/// The outcome of a check, if it takes no waiting at all; `None` if it does, and then nothing has been asked.
#[allow(clippy::inline_always, reason = "a call to it would cost more than what most checks need of it")]
#[inline(always)]
pub(crate) fn acquire_now<T: Admission>(engine: &Engine, check: &Check<'_>) -> Option<Result<T, RateLimitError>> {
    if check.waits() { None } else { engine.acquire_now(check) }
}

/// Asks one check that [`acquire_now`] had no answer for, and waits for a slot if its rule says so.
pub(crate) async fn acquire(asked: &Asked) -> Result<Decision, RateLimitError> {
    if !asked.check().waits() {
        return cooperative(observed(asked, asked.acquire(asked.limit_after(Instant::now())).await)).await;
    }
    // Boxed, so that rules that do not wait have a small future.
    let mut decisions = cooperative(Box::pin(waiting(std::slice::from_ref(asked))).await).await?;
    decisions.pop().ok_or_else(|| RateLimitError::misconfigured("nothing was asked"))
}

/// Asks several checks together, and waits for slots for as long as the rules that refuse allow.
pub(crate) async fn acquire_all(group: &[Asked]) -> Result<Vec<Decision>, RateLimitError> {
    if let [asked] = group {
        return Ok(vec![acquire(asked).await?]);
    }
    cooperative(Box::pin(waiting(group)).await).await
}

/// The outcome, and where that is no admission, a part of the task's cooperation budget: a caller who asks again and again
/// is answered at once each time, and must not keep its thread from other tasks.
async fn cooperative<T>(outcome: Result<T, RateLimitError>) -> Result<T, RateLimitError> {
    if outcome.is_err() {
        poll_fn(poll_cooperative).await;
    }
    outcome
}

/// Ready, unless the task has used up its budget. Refusals are so quick that some of them are as much work as what else
/// takes a unit of it.
#[inline]
pub(crate) fn poll_cooperative(cx: &mut Context<'_>) -> Poll<()> {
    const REFUSALS_PER_UNIT: u8 = 16;
    thread_local! {
        static REFUSALS: Cell<u8> = const { Cell::new(0) };
    }
    let refusals = REFUSALS.get().wrapping_add(1);
    REFUSALS.set(refusals);
    if refusals.is_multiple_of(REFUSALS_PER_UNIT) { poll_budget(cx) } else { Poll::Ready(()) }
}

#[cold]
fn poll_budget(cx: &mut Context<'_>) -> Poll<()> {
    coop::poll_proceed(cx).map(|budget| budget.made_progress())
}

async fn waiting(group: &[Asked]) -> Result<Vec<Decision>, RateLimitError> {
    let outcome = attempts(group).await;
    match &outcome {
        Ok(decisions) => {
            for (asked, decision) in group.iter().zip(decisions) {
                observe::decision(&asked.check().observed(decision));
            }
        }
        Err(Refused { by, error }) => {
            if let Some(asked) = group.get(*by) {
                observe_error(asked, error);
            }
        }
    }
    outcome.map_err(|refused| refused.error)
}

async fn attempts(group: &[Asked]) -> Result<Vec<Decision>, Refused> {
    let waits = |asked: &Asked| if asked.check().waits() { asked.check().terms.wait } else { Duration::ZERO };
    let start = Instant::now();
    let longest = group.iter().map(waits).max().unwrap_or_default();
    if longest.is_zero() {
        return once(group, start).await;
    }
    if let Err(why) = real_time::timers() {
        let by = group.iter().position(|asked| asked.check().waits()).unwrap_or(0);
        return Err(Refused { by, error: RateLimitError::misconfigured(format!("`wait` cannot be kept here: {why}")) });
    }
    let attempt = group.iter().map(Asked::timeout).max().unwrap_or_default().min(Limit::MAX_WINDOW);
    let waiters: Vec<Waiter<'_>> = group
        .iter()
        .map(|asked| Waiter { queues: &asked.engine.queues, key: asked.check().key, wait: waits(asked), attempt })
        .collect();
    match wait::wait(&waiters, &Group(group)).await {
        Waited::Attempted(outcome) => outcome,
        Waited::OutOfTime { by, refused, front } => out_of_time(group, by, refused, front).await,
    }
}

/// Checks that wait for their slots.
struct Group<'a>(&'a [Asked]);

impl Attempts for Group<'_> {
    type Outcome = Result<Vec<Decision>, Refused>;

    async fn attempt(&self) -> Attempt<Self::Outcome> {
        match once(self.0, Instant::now()).await {
            Err(Refused { by, error: RateLimitError::Exceeded(refusal) }) => {
                let outcome = Err(Refused { by, error: RateLimitError::Exceeded(refusal) });
                match refusal.retry_after() {
                    Some(retry_after) => Attempt::Refused { by, retry_after, outcome },
                    None => Attempt::Done(outcome),
                }
            }
            outcome => Attempt::Done(outcome),
        }
    }
}

async fn once(group: &[Asked], start: Instant) -> Result<Vec<Decision>, Refused> {
    match group {
        [asked] => match asked.acquire(asked.limit_after(start)).await {
            Ok(decision) => Ok(vec![decision]),
            Err(error) => Err(Refused { by: 0, error }),
        },
        group => group::acquire(group, start).await,
    }
}

/// The answer to a caller whose time was up before its turn came, or for whom there was no room in the queue.
async fn out_of_time(
    group: &[Asked],
    by: usize,
    refused: Option<(Result<Vec<Decision>, Refused>, Duration)>,
    front: Option<Duration>,
) -> Result<Vec<Decision>, Refused> {
    let Some(asked) = group.get(by) else { return once(group, Instant::now()).await };
    let serves = asked.check().key_request().is_ok_and(|request| asked.engine.store.health(&request) == Health::Up);
    if !serves {
        // There are no slots to wait for: the policy answers.
        return once(group, Instant::now()).await;
    }
    // Not asked again: a slot that comes free now belongs to the first in the queue, and all who give up at this moment
    // would ask at once.
    let decision = if let Some((Err(Refused { error: RateLimitError::Exceeded(refusal), .. }), ago)) = refused {
        refusal.aged(ago)
    } else {
        let peeked = asked.peek(asked.limit_after(Instant::now())).await;
        let decision = peeked.map_err(|error| Refused { by, error })?;
        if decision.source() == Source::Nobody {
            return once(group, Instant::now()).await;
        }
        decision
    };
    // A slot may be free already, but not for this caller.
    let at_least = front.unwrap_or_default().max(Duration::from_millis(1));
    let at_least = u64::try_from(at_least.as_micros()).unwrap_or(u64::MAX);
    let status = if decision.is_blocked() { Status::Blocked } else { Status::Exceeded };
    let refusal = Decision { status, retry_after_us: decision.retry_after_us.max(at_least), ticket: 0, ..decision };
    Err(Refused { by, error: RateLimitError::Exceeded(refusal) })
}

fn observed(asked: &Asked, outcome: Result<Decision, RateLimitError>) -> Result<Decision, RateLimitError> {
    match &outcome {
        Ok(decision) => observe::decision(&asked.check().observed(decision)),
        Err(error) => observe_error(asked, error),
    }
    outcome
}

fn observe_error(asked: &Asked, error: &RateLimitError) {
    let check = asked.check();
    match error {
        RateLimitError::Exceeded(refusal) => observe::decision(&check.observed(refusal)),
        error => observe::failed(check.name, error),
    }
}

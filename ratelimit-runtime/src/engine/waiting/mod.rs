//! Waiting: several checks are tried again until they are admitted, for as long as the rules that
//! refuse allow.

mod attempts;
pub(super) mod queue;

use std::time::{Duration, Instant};

use self::attempts::{Attempt, Attempts, Waited, Waiter, wait};
use super::call::OwnedCall;
use super::group::{self, Admitted, Refused};
use crate::decision::{Decision, Source, Status};
use crate::error::RateLimitError;
use crate::real_time;
use crate::rule::Limit;
use crate::store::{Health, Store as _};

type Outcome = Result<Admitted, Refused>;

/// Asks several checks together, and again for as long as the rules that refuse wait.
pub(super) async fn acquire(group: &[OwnedCall]) -> Outcome {
    let waits = |call: &OwnedCall| if call.check().may_queue() { call.check().terms.wait } else { Duration::ZERO };
    let longest = group.iter().map(waits).max().unwrap_or_default();
    if longest.is_zero() {
        return group::acquire(group, Instant::now()).await;
    }
    if let Err(why) = real_time::timers() {
        let by = group.iter().position(|call| call.check().may_queue()).unwrap_or(0);
        return Err(Refused { by, error: RateLimitError::misconfigured(format!("`wait` cannot be kept here: {why}")) });
    }
    let attempt = group.iter().map(OwnedCall::timeout).max().unwrap_or_default().min(Limit::MAX_WINDOW);
    let waiters: Vec<Waiter<'_>> = group
        .iter()
        .map(|call| Waiter { queues: &call.engine.queues, key: call.check().key, wait: waits(call), attempt })
        .collect();
    match wait(&waiters, &Group(group)).await {
        Waited::Attempted(outcome) => outcome,
        Waited::OutOfTime { by, refused, front } => out_of_time(group, by, refused, front).await,
    }
}

/// Checks that wait for their slots.
struct Group<'a>(&'a [OwnedCall]);

impl Attempts for Group<'_> {
    type Outcome = Outcome;

    async fn attempt(&self) -> Attempt<Self::Outcome> {
        match group::acquire(self.0, Instant::now()).await {
            Err(Refused { by, error: RateLimitError::Exceeded(refusal) }) => {
                let outcome = Err(Refused { by, error: RateLimitError::Exceeded(refusal) });
                match refusal.tries_again_after() {
                    Some(retry_after) => Attempt::Refused { by, retry_after, outcome },
                    None => Attempt::Done(outcome),
                }
            }
            outcome => Attempt::Done(outcome),
        }
    }
}

/// The answer to a caller whose time was up before its turn came, or for whom there was no room in
/// the queue.
async fn out_of_time(
    group: &[OwnedCall],
    by: usize,
    refused: Option<(Outcome, Duration)>,
    front: Option<Duration>,
) -> Outcome {
    let Some(call) = group.get(by) else { return group::acquire(group, Instant::now()).await };
    let serves = call.key_request().is_ok_and(|request| call.engine.store.health(&request) == Health::Up);
    if !serves {
        // There are no slots to wait for: the policy answers.
        return group::acquire(group, Instant::now()).await;
    }
    // Not asked again: a slot that comes free now belongs to the first in the queue, and all who
    // give up at this moment would ask at once.
    let decision = if let Some((Err(Refused { error: RateLimitError::Exceeded(refusal), .. }), ago)) = refused {
        refusal.aged(ago)
    } else {
        let decision = call.peek().await.map_err(|error| Refused { by, error })?;
        if decision.source() == Source::Nobody {
            return group::acquire(group, Instant::now()).await;
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

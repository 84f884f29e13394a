//! Waiting: several checks are tried again until they are admitted, for as long as the rules that
//! refuse allow.

mod attempts;
pub(super) mod queue;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::attempts::{Attempt, Attempts, Waited, Waiter, wait};
use self::queue::TakesPlaces;
use super::call::OwnedCall;
use super::group::{Admitted, Refused};
use super::permits::{self, CallPermits, StorePermit};
use crate::decision::{Decision, Source, Status};
use crate::error::RateLimitError;
use crate::real_time;
use crate::rule::Limit;
use crate::store::{Health, PermitId};

type Outcome = Result<(Admitted, CallPermits), Refused>;

/// Between two looks whether another process has left a place.
const PAUSES_MS: RangeInclusive<u64> = 50..=250;

/// Asks several checks together, and again for as long as the rules that refuse wait.
pub(super) async fn acquire(group: &[OwnedCall]) -> Outcome {
    let waits = |call: &OwnedCall| if call.check().may_queue() { call.check().terms.wait } else { Duration::ZERO };
    let longest = group.iter().map(waits).max().unwrap_or_default();
    if longest.is_zero() {
        return permits::acquire(group, Instant::now(), None).await;
    }
    if let Err(why) = real_time::timers() {
        let by = group.iter().position(|call| call.check().may_queue()).unwrap_or(0);
        return Err(Refused { by, error: RateLimitError::misconfigured(format!("`wait` cannot be kept here: {why}")) });
    }
    let attempt = group.iter().map(OwnedCall::timeout).max().unwrap_or_default().min(Limit::MAX_WINDOW);
    let mut waiters: Vec<Waiter<'_>> = Vec::with_capacity(group.len());
    for (check, call) in group.iter().enumerate() {
        let (queues, wait) = (&call.engine.queues, waits(call));
        if call.is_limited() {
            waiters.push(Waiter { check, taker: None, queues, key: call.check().key, wait, attempt });
        }
        if let Some(place) = call.place() {
            waiters.push(Waiter { check, taker: Some(call), queues, key: place.key(), wait, attempt });
        }
    }
    match wait(&waiters, &Group { calls: group, waiters: &waiters, has_asked: AtomicBool::new(false) }).await {
        Waited::Attempted(outcome) => outcome,
        Waited::OutOfTime { by, refused, front } => match waiters.get(by) {
            Some(waiter) => out_of_time(group, waiter, refused, front).await,
            None => permits::acquire(group, Instant::now(), None).await,
        },
    }
}

impl TakesPlaces for OwnedCall {
    fn leave(&self, permit: PermitId) {
        if let Some(place) = self.place() {
            self.engine.store.innermost().leave(place.request(permit));
        }
    }
}

/// Checks that wait for their slots.
struct Group<'a> {
    calls: &'a [OwnedCall],
    waiters: &'a [Waiter<'a>],
    /// Whether places have been asked for.
    has_asked: AtomicBool,
}

impl Group<'_> {
    /// The waiter of a check that refuses, for a slot or for a place.
    fn waiter(&self, check: usize, takes_place: bool) -> usize {
        let is_it = |waiter: &Waiter<'_>| waiter.check == check && waiter.taker.is_some() == takes_place;
        self.waiters.iter().position(is_it).unwrap_or(self.waiters.len())
    }

    /// How long to pause before a place is asked for again. In a memory of this process a place may
    /// have been left before this caller was in the queue, and is not handed over: so the first
    /// time it asks at once.
    fn pause(&self, check: usize) -> Duration {
        let in_memory = self.calls.get(check).is_some_and(|call| call.engine.in_memory);
        if !self.has_asked.swap(true, Ordering::Relaxed) && in_memory {
            return Duration::ZERO;
        }
        let spread = RandomState::new().hash_one(check) % (PAUSES_MS.end() - PAUSES_MS.start() + 1);
        Duration::from_millis(PAUSES_MS.start() + spread)
    }
}

impl Attempts for Group<'_> {
    type Outcome = Outcome;

    async fn attempt(&self, handed: Option<(usize, PermitId)>) -> Attempt<Self::Outcome> {
        let handed = handed.and_then(|(by, id)| {
            let call = self.calls.get(self.waiters.get(by)?.check)?;
            Some(StorePermit::with_id(&call.engine, call.place()?, id))
        });
        match permits::acquire(self.calls, Instant::now(), handed).await {
            Err(Refused { by: check, error: RateLimitError::Exceeded(refusal) }) => {
                let outcome = Err(Refused { by: check, error: RateLimitError::Exceeded(refusal) });
                let by = self.waiter(check, refusal.is_in_flight_limit());
                if refusal.is_in_flight_limit() {
                    return Attempt::Full { by, pause: self.pause(check), outcome };
                }
                match refusal.retry_after() {
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
    waiter: &Waiter<'_>,
    refused: Option<(Outcome, Duration)>,
    front: Option<Duration>,
) -> Outcome {
    let by = waiter.check;
    let Some(call) = group.get(by) else { return permits::acquire(group, Instant::now(), None).await };
    let serves = call.key_request().is_ok_and(|request| call.engine.store.innermost().health(&request) == Health::Up);
    if !serves {
        // There are no slots to wait for: the policy answers.
        return permits::acquire(group, Instant::now(), None).await;
    }
    if let Some(place) = call.place().filter(|_| waiter.taker.is_some()) {
        return Err(Refused { by, error: RateLimitError::Exceeded(place.refused(Source::Store)) });
    }
    // Not asked again: a slot that comes free now belongs to the first in the queue, and all who
    // give up at this moment would ask at once.
    let decision = if let Some((Err(Refused { error: RateLimitError::Exceeded(refusal), .. }), ago)) = refused {
        refusal.aged(ago)
    } else {
        let decision = call.peek().await.map_err(|error| Refused { by, error })?;
        if decision.source() == Source::Nobody {
            return permits::acquire(group, Instant::now(), None).await;
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

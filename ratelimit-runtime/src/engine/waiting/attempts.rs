//! [`wait`]: waiting for a slot instead of being refused at once.
//!
//! Callers that a key has refused wait in the queue of that key, first come, first served, and only
//! the first of them tries again: a thousand waiters ask the store once, not a thousand times. A
//! caller that comes while others wait goes to the end of the queue. Each waits no longer than its
//! rule allows.
//!
//! What is tried is up to the caller; this file only knows keys and refusals.

use std::time::Duration;

use tokio::time::Instant;

use super::queue::{QueuePlace, TakesPlaces, WaitQueues};
use crate::store::PermitId;

/// A key that may refuse an attempt, and how long its rule waits for a slot; zero for not at all.
#[derive(Clone, Copy)]
pub(super) struct Waiter<'a> {
    /// Which of the checks has the key.
    pub(super) check: usize,
    /// Who waits, if it is for places, which may be handed over.
    pub(super) taker: Option<&'a dyn TakesPlaces>,
    pub(super) queues: &'a WaitQueues,
    pub(super) key: &'a [u8],
    pub(super) wait: Duration,
    /// How long an attempt takes at most.
    pub(super) attempt: Duration,
}

/// What is tried, again and again.
pub(super) trait Attempts: Sync {
    type Outcome: Send;

    /// Tries once. `handed` is a permit whose place was handed over to the waiter with this index.
    fn attempt(&self, handed: Option<(usize, PermitId)>) -> impl Future<Output = Attempt<Self::Outcome>> + Send;
}

/// What became of an attempt.
pub(super) enum Attempt<T> {
    /// It needs no waiting, whatever it says.
    Done(T),
    /// The waiter with this index refuses, for this long.
    Refused { by: usize, retry_after: Duration, outcome: T },
    /// The waiter with this index has no place. It is not known when there will be one: after so
    /// long it is tried again, unless one is handed over before.
    Full { by: usize, pause: Duration, outcome: T },
}

/// How the wait ended.
pub(super) enum Waited<T> {
    /// It ended with the outcome of an attempt.
    Attempted(T),
    /// Time was up in the queue of waiter `by` before its turn came, or there was no room in it.
    /// `refused` is the caller's own last refusal, if there was one, and how long ago it came;
    /// `front` is how long the first in that queue still waits.
    OutOfTime { by: usize, refused: Option<(T, Duration)>, front: Option<Duration> },
}

/// Tries until an attempt is not refused, or until the next one would come later than the refusing
/// key's wait allows.
pub(super) async fn wait<A: Attempts>(waiters: &[Waiter<'_>], attempts: &A) -> Waited<A::Outcome> {
    let start = Instant::now();
    let mut place: Option<(usize, QueuePlace<'_>)> = None;
    let mut last: Option<(A::Outcome, Instant)> = None;
    // A caller who comes while others wait stands behind them.
    let mut next = waiters.iter().position(|waiter| !waiter.wait.is_zero() && waiter.queues.has(waiter.key));
    let mut retry_at = start;
    loop {
        if let Some((by, waiter)) = next.take().and_then(|by| Some((by, waiters.get(by)?))) {
            // The old place is left first, so that no caller waits for one key while keeping the
            // turn of another.
            drop(place.take());
            let in_time = match waiter.queues.join(waiter.key, waiter.attempt, waiter.taker) {
                Some(joined) => place.insert((by, joined)).1.turn(retry_at, start + waiter.wait).await,
                None => false,
            };
            if !in_time {
                return out_of_time(by, waiter, last);
            }
        }
        let handed = place.as_ref().and_then(|(by, place)| Some((*by, place.take_handed()?)));
        let attempt = attempts.attempt(handed).await;
        let now = Instant::now();
        let wait_of = |by: usize| waiters.get(by).map_or(Duration::ZERO, |waiter| waiter.wait);
        let by = match attempt {
            Attempt::Done(outcome) => return Waited::Attempted(outcome),
            Attempt::Refused { by, retry_after, outcome } => {
                let wait = wait_of(by);
                if wait.is_zero() || now + retry_after > start + wait {
                    return Waited::Attempted(outcome);
                }
                retry_at = now + retry_after;
                last = Some((outcome, now));
                by
            }
            Attempt::Full { by, pause, outcome } => {
                let until = start + wait_of(by);
                if now >= until {
                    return Waited::Attempted(outcome);
                }
                // The last one is made when the time is up.
                retry_at = until.min(now + pause);
                last = Some((outcome, now));
                by
            }
        };
        match (&mut place, waiters.get(by)) {
            (Some((at, place)), Some(waiter)) if *at == by => {
                if !place.turn(retry_at, start + waiter.wait).await {
                    return out_of_time(by, waiter, last);
                }
            }
            _ => next = Some(by),
        }
    }
}

fn out_of_time<T>(by: usize, waiter: &Waiter<'_>, last: Option<(T, Instant)>) -> Waited<T> {
    let now = Instant::now();
    Waited::OutOfTime {
        by,
        refused: last.map(|(refusal, then)| (refusal, now.saturating_duration_since(then))),
        front: waiter.queues.front(waiter.key).map(|at| at.saturating_duration_since(now)),
    }
}

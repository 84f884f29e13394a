//! [`WaitQueues`]: waiting for a slot instead of being refused at once.
//!
//! Callers that a key has refused stand in the queue of that key, first come, first served, and only the first of them
//! tries again, at the moment that its last refusal named: a thousand waiters ask the store once, not a thousand times. A caller
//! who comes while others wait goes to the end of the queue. Each waits no longer than its rule allows, and one that is
//! dropped makes room for the next.
//!
//! What is tried is up to the caller; this file only knows keys and refusals.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// How many callers of one limiter may wait; further ones are refused at once.
const MAX_WAITERS: usize = 10_000;

/// The queues of one limiter, one per key that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct WaitQueues {
    queues: Mutex<HashMap<Box<[u8]>, Arc<Queue>>>,
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queue {
    /// Locked by the first in the queue. Tokio's mutex is fair, so the others follow in order.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many callers are in the queue. Changed under the lock of the queues.
    len: AtomicUsize,
    /// When the first may try again.
    retry_at: Mutex<Option<Instant>>,
}

/// A key that may refuse an attempt, and how long its rule waits for a slot; zero for not at all.
#[derive(Clone, Copy)]
pub(super) struct Waiter<'a> {
    pub(super) queues: &'a WaitQueues,
    pub(super) key: &'a [u8],
    pub(super) wait: Duration,
}

/// What is tried, again and again.
pub(super) trait Attempts: Sync {
    type Outcome: Send;

    fn attempt(&self) -> impl Future<Output = Attempt<Self::Outcome>> + Send;
}

/// What became of an attempt.
pub(super) enum Attempt<T> {
    /// It needs no waiting, whatever it says.
    Done(T),
    /// The waiter with this index refuses, for this long.
    Refused { by: usize, retry_after: Duration, outcome: T },
}

/// How the wait ended.
pub(super) enum Waited<T> {
    /// It ended with the outcome of an attempt.
    Attempted(T),
    /// Time was up in the queue of waiter `by`, before its turn came. `refused` is the caller's own last refusal, if there
    /// was one, and how long ago it came; `front` is how long the first in that queue still waits.
    OutOfTime { by: usize, refused: Option<(T, Duration)>, front: Option<Duration> },
}

/// Tries until an attempt is not refused, or until the next one would come later than the refusing key's wait allows.
pub(super) async fn wait<A: Attempts>(waiters: &[Waiter<'_>], attempts: &A) -> Waited<A::Outcome> {
    let start = Instant::now();
    let mut place: Option<(usize, Place<'_>)> = None;
    let mut last: Option<(A::Outcome, Instant)> = None;
    // Whoever comes while others wait stands behind them.
    let mut next = waiters.iter().position(|waiter| !waiter.wait.is_zero() && waiter.queues.has(waiter.key));
    let mut retry_at = start;
    loop {
        if let Some((by, waiter)) = next.take().and_then(|by| Some((by, waiters.get(by)?))) {
            // The old place is left first, so that nobody waits for one key while keeping the turn of another.
            drop(place.take());
            let Some(mut joined) = waiter.queues.join(waiter.key) else {
                return Waited::Attempted(match last {
                    Some((refusal, _)) => refusal,
                    None => attempts.attempt().await.outcome(),
                });
            };
            if joined.is_first() {
                joined.sleep_until(retry_at).await;
            } else if !joined.turn(start + waiter.wait).await {
                let now = Instant::now();
                let refused = last.map(|(refusal, then)| (refusal, now.saturating_duration_since(then)));
                return Waited::OutOfTime {
                    by,
                    refused,
                    front: joined.front().map(|at| at.saturating_duration_since(now)),
                };
            }
            place = Some((by, joined));
        }
        match attempts.attempt().await {
            Attempt::Done(outcome) => return Waited::Attempted(outcome),
            Attempt::Refused { by, retry_after, outcome } => {
                let now = Instant::now();
                let wait = waiters.get(by).map_or(Duration::ZERO, |waiter| waiter.wait);
                if wait.is_zero() || now + retry_after > start + wait {
                    return Waited::Attempted(outcome);
                }
                retry_at = now + retry_after;
                last = Some((outcome, now));
                match &mut place {
                    Some((at, place)) if *at == by => place.sleep_until(retry_at).await,
                    _ => next = Some(by),
                }
            }
        }
    }
}

impl<T> Attempt<T> {
    fn outcome(self) -> T {
        match self {
            Self::Done(outcome) | Self::Refused { outcome, .. } => outcome,
        }
    }
}

impl WaitQueues {
    fn has(&self, key: &[u8]) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
            && self.queues.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }

    /// A place at the end of the queue of this key; `None` if too many wait already.
    fn join(&self, key: &[u8]) -> Option<Place<'_>> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if self.waiting.load(Ordering::Relaxed) >= MAX_WAITERS {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let key: Box<[u8]> = key.into();
        let queue = Arc::clone(queues.entry(key.clone()).or_default());
        queue.len.fetch_add(1, Ordering::Relaxed);
        Some(Place { turn: None, queues: self, key, queue })
    }
}

/// A place in a queue; the last to leave takes the queue along.
struct Place<'a> {
    turn: Option<OwnedMutexGuard<()>>,
    queues: &'a WaitQueues,
    key: Box<[u8]>,
    queue: Arc<Queue>,
}

impl Place<'_> {
    /// Whether nobody stands in front; then it is the caller's turn.
    fn is_first(&mut self) -> bool {
        self.turn = Arc::clone(&self.queue.turn).try_lock_owned().ok();
        self.turn.is_some()
    }

    /// Waits for the turn; says whether it came in time.
    async fn turn(&mut self, until: Instant) -> bool {
        self.turn = tokio::time::timeout_at(until, Arc::clone(&self.queue.turn).lock_owned()).await.ok();
        self.turn.is_some()
    }

    async fn sleep_until(&mut self, at: Instant) {
        *self.queue.retry_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        tokio::time::sleep_until(at).await;
    }

    /// When the first in the queue tries again.
    fn front(&self) -> Option<Instant> {
        *self.queue.retry_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.turn = None;
        let mut queues = self.queues.queues.lock().unwrap_or_else(PoisonError::into_inner);
        self.queues.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.queue.len.fetch_sub(1, Ordering::Relaxed) == 1 {
            queues.remove(&self.key);
        }
    }
}

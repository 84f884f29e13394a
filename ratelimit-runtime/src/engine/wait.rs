//! [`WaitQueues`]: waiting for a slot instead of being refused at once.
//!
//! Callers that a key has refused stand in the queue of that key, first come, first served, and only the first of them
//! tries again, at the moment that its last refusal named: a thousand waiters ask the store once, not a thousand times. A caller
//! who comes while others wait goes to the end of the queue. Each waits no longer than its rule allows, and one that is
//! dropped makes room for the next. So does one whose runtime is not driven: its turn lapses, and with it the places of all
//! who wait on that runtime, so that those behind them wait for it once.
//!
//! What is tried is up to the caller; this file only knows keys and refusals.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many callers of one limiter may wait; further ones are refused at once.
const MAX_WAITERS: usize = 10_000;
/// How late a runtime may run the first in a queue. After that, and the time of an attempt, the turn is the next one's.
const LATE: Duration = Duration::from_secs(1);

/// A key that may refuse an attempt, and how long its rule waits for a slot; zero for not at all.
#[derive(Clone, Copy)]
pub(super) struct Waiter<'a> {
    pub(super) queues: &'a WaitQueues,
    pub(super) key: &'a [u8],
    pub(super) wait: Duration,
    /// How long an attempt takes at most.
    pub(super) attempt: Duration,
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
    /// Time was up in the queue of waiter `by` before its turn came, or there was no room in it. `refused` is the caller's
    /// own last refusal, if there was one, and how long ago it came; `front` is how long the first in that queue still waits.
    OutOfTime { by: usize, refused: Option<(T, Duration)>, front: Option<Duration> },
}

/// Tries until an attempt is not refused, or until the next one would come later than the refusing key's wait allows.
pub(super) async fn wait<A: Attempts>(waiters: &[Waiter<'_>], attempts: &A) -> Waited<A::Outcome> {
    let start = Instant::now();
    let mut place: Option<(usize, Place<'_>)> = None;
    let mut last: Option<(A::Outcome, Instant)> = None;
    // A caller who comes while others wait stands behind them.
    let mut next = waiters.iter().position(|waiter| !waiter.wait.is_zero() && waiter.queues.has(waiter.key));
    let mut retry_at = start;
    loop {
        if let Some((by, waiter)) = next.take().and_then(|by| Some((by, waiters.get(by)?))) {
            // The old place is left first, so that no caller waits for one key while keeping the turn of another.
            drop(place.take());
            let in_time = match waiter.queues.join(waiter) {
                Some(joined) => place.insert((by, joined)).1.turn(retry_at, start + waiter.wait).await,
                None => false,
            };
            if !in_time {
                return out_of_time(by, waiter, last);
            }
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
                match (&mut place, waiters.get(by)) {
                    (Some((at, place)), Some(waiter)) if *at == by => {
                        if !place.turn(retry_at, start + wait).await {
                            return out_of_time(by, waiter, last);
                        }
                    }
                    _ => next = Some(by),
                }
            }
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

/// The queues of one limiter, one per key that is waited for.
#[derive(Debug, Default)]
pub(super) struct WaitQueues {
    queues: Mutex<Queues>,
    /// How many places there are, those that have lapsed included.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queues {
    by_key: HashMap<Box<[u8]>, Queue>,
    /// Of the next place, in whichever queue: one that has lapsed is not taken for another in a later queue of its key.
    next: u64,
}

/// The places of one queue, by number; never empty. The first of them has the turn.
#[derive(Debug)]
struct Queue {
    places: BTreeMap<u64, Turn>,
    /// When the first tries again.
    retry_at: Instant,
    /// When the turn is the next one's, unless the first has done something by then.
    lapses_at: Instant,
}

/// What a place is told, where that is heard, and how long it may take over an attempt.
#[derive(Debug, Clone)]
struct Turn {
    comes: Arc<Notify>,
    runtime: Option<Id>,
    attempt: Duration,
}

impl WaitQueues {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, key: &[u8]) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 && self.lock().by_key.contains_key(key)
    }

    /// When the first in the queue of this key tries again.
    fn front(&self, key: &[u8]) -> Option<Instant> {
        self.lock().by_key.get(key).map(|queue| queue.retry_at)
    }

    /// A place at the end of the queue of a key; `None` if too many wait already.
    fn join<'a>(&'a self, waiter: &Waiter<'_>) -> Option<Place<'a>> {
        let mut queues = self.lock();
        if self.waiting.load(Ordering::Relaxed) >= MAX_WAITERS {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = Turn { comes: Arc::new(Notify::new()), runtime: runtime(), attempt: waiter.attempt };
        let key: Box<[u8]> = waiter.key.into();
        let number = queues.join(&key, &turn);
        Some(Place { queues: self, key, number, turn })
    }
}

impl Queues {
    /// Adds a place at the end of the queue of a key, and gives its number.
    fn join(&mut self, key: &[u8], turn: &Turn) -> u64 {
        let number = self.next;
        self.next += 1;
        if let Some(queue) = self.by_key.get_mut(key) {
            queue.places.insert(number, turn.clone());
        } else {
            let (now, places) = (Instant::now(), BTreeMap::from([(number, turn.clone())]));
            self.by_key.insert(key.into(), Queue { places, retry_at: now, lapses_at: now + turn.attempt + LATE });
        }
        number
    }
}

impl Queue {
    /// Takes a place out; if it was the first, the turn is the next one's. Says whether any are left.
    fn leave(&mut self, number: u64, now: Instant) -> bool {
        let had_turn = self.is_first(number);
        self.places.remove(&number);
        if had_turn && let Some(first) = self.places.values().next() {
            // From now on, because nothing says that the runtime of the next is driven.
            (self.retry_at, self.lapses_at) = (now, now + first.attempt + LATE);
            first.comes.notify_one();
        }
        !self.places.is_empty()
    }

    /// Takes out the first place, whose turn has lapsed, and those on its runtime, unless that is the one that runs this.
    fn lapse(&mut self, first: u64, now: Instant) {
        let late = self.places.get(&first).and_then(|turn| turn.runtime).filter(|late| runtime() != Some(*late));
        self.places.retain(|number, turn| *number == first || late.is_none() || turn.runtime != late);
        self.leave(first, now);
    }

    fn is_first(&self, number: u64) -> bool {
        self.places.keys().next() == Some(&number)
    }
}

fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// A place in a queue; the last to leave takes the queue along.
struct Place<'a> {
    queues: &'a WaitQueues,
    key: Box<[u8]>,
    number: u64,
    turn: Turn,
}

/// Where a place stands.
enum Stand {
    First,
    /// Behind one whose turn may lapse at this moment.
    Behind(Instant),
}

impl Place<'_> {
    /// Waits for the turn, and if it is there already until `retry_at`; says whether that was in time.
    async fn turn(&mut self, retry_at: Instant, until: Instant) -> bool {
        if self.keeps_turn_until(retry_at) {
            tokio::time::sleep_until(retry_at).await;
        }
        loop {
            match self.stand() {
                Stand::First => return true,
                Stand::Behind(_) if Instant::now() >= until => return false,
                Stand::Behind(lapses_at) => {
                    // A turn that has come meanwhile is kept by the notification, and else it was time to look.
                    let _ = tokio::time::timeout_at(until.min(lapses_at), self.turn.comes.notified()).await;
                }
            }
        }
    }

    /// Says that the next attempt is made at this moment, if it is this one's turn.
    fn keeps_turn_until(&self, retry_at: Instant) -> bool {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.by_key.get_mut(&self.key).filter(|queue| queue.is_first(self.number)) else {
            return false;
        };
        (queue.retry_at, queue.lapses_at) = (retry_at, retry_at + self.turn.attempt + LATE);
        true
    }

    /// Where it stands now. A turn that has lapsed is taken away, and its place with it: its owner joins again at the end.
    fn stand(&mut self) -> Stand {
        let mut queues = self.queues.lock();
        loop {
            let now = Instant::now();
            let queue = queues.by_key.get_mut(&self.key).filter(|queue| queue.places.contains_key(&self.number));
            let Some(queue) = queue else {
                self.number = queues.join(&self.key, &self.turn);
                continue;
            };
            match queue.places.keys().next().copied() {
                Some(first) if first != self.number && now < queue.lapses_at => return Stand::Behind(queue.lapses_at),
                Some(first) if first != self.number => queue.lapse(first, now),
                _ => return Stand::First,
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        self.queues.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(queue) = queues.by_key.get_mut(&self.key)
            && !queue.leave(self.number, Instant::now())
        {
            queues.by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::*;

    const ATTEMPT: Duration = Duration::from_millis(100);

    fn waiter(queues: &WaitQueues) -> Waiter<'_> {
        Waiter { queues, key: b"key", wait: LATE * 10, attempt: ATTEMPT }
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_lapsed_is_no_place_in_a_later_queue_of_the_key() {
        let queues = WaitQueues::default();
        let mut lapsed = queues.join(&waiter(&queues)).unwrap();
        let mut second = queues.join(&waiter(&queues)).unwrap();
        assert!(matches!(second.stand(), Stand::Behind(_)));
        tokio::time::advance(ATTEMPT + LATE).await;
        assert!(matches!(second.stand(), Stand::First));
        drop(second);
        assert!(!queues.has(b"key"));
        let mut newcomer = queues.join(&waiter(&queues)).unwrap();
        assert!(matches!(newcomer.stand(), Stand::First));
        assert!(matches!(lapsed.stand(), Stand::Behind(_)), "the turn is the newcomer's");
        drop(lapsed);
        assert!(queues.has(b"key"), "the newcomer keeps its place");
        assert!(matches!(newcomer.stand(), Stand::First));
    }

    #[tokio::test(start_paused = true)]
    async fn all_waiters_of_a_runtime_that_is_not_driven_lapse_together() {
        let queues = WaitQueues::default();
        let other = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut others: Vec<_> = {
            let _other = other.enter();
            (0..3).map(|_| queues.join(&waiter(&queues)).unwrap()).collect()
        };
        let [mut ours, mut next] = [(); 2].map(|()| queues.join(&waiter(&queues)).unwrap());
        assert!(matches!(ours.stand(), Stand::Behind(_)));
        tokio::time::advance(ATTEMPT + LATE * 2).await;
        assert!(matches!(ours.stand(), Stand::First));
        // One of the same runtime that is late takes none of the others along.
        tokio::time::advance(ATTEMPT + LATE * 2).await;
        assert!(matches!(next.stand(), Stand::First));
        assert!(matches!(ours.stand(), Stand::Behind(_)));
        for other in &mut others {
            assert!(matches!(other.stand(), Stand::Behind(_)), "behind, once it is driven again");
        }
        drop((ours, next));
        assert!(matches!(others[0].stand(), Stand::First));
        drop(others);
        assert!(!queues.has(b"key"));
        tokio::task::spawn_blocking(|| drop(other)).await.unwrap();
    }
}

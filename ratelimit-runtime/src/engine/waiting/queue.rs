//! [`WaitQueues`]: the queues of callers that wait for a slot, one per key that refuses.
//!
//! Only the first in a queue tries again, at the moment that its last refusal named. One that is
//! dropped makes room for the next. So does one whose runtime is not driven: its turn lapses, and
//! with it the places of all who wait on that runtime, so that those behind them wait for it once.
//!
//! In a queue for places of calls in flight the first does not only wait for a moment: a call that
//! ends hands its place over, with its permit. Few are handed over in a row; then one is left to
//! other processes.
//!
//! One lock guards all queues of a limiter, and is never kept across an `.await`. A turn that comes
//! between two looks at the queue is not lost: [`Notify`] keeps one notification until it is
//! awaited, and a caller that wakes looks at the queue again, so that one notification too many
//! does no harm.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::store::PermitId;

/// How many callers of one limiter may wait; further ones are refused at once.
const MAX_WAITERS: usize = 10_000;
/// How late a runtime may run the first in a queue. After that, and the time of an attempt, the
/// turn is the next one's.
const LATE: Duration = Duration::from_secs(1);
/// How many places of a key are handed over in a row, if there are other processes. Then one is
/// left to them, for as long as they take to look.
const MOST_IN_A_ROW: u8 = 8;
const YIELD: Duration = Duration::from_millis(250);

/// The queues of one limiter, one per key that is waited for.
#[derive(Debug, Default)]
pub(in crate::engine) struct WaitQueues {
    queues: Mutex<Queues>,
    /// How many places there are, those that have lapsed included.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Queues {
    by_key: HashMap<Box<[u8]>, Queue>,
    /// Of the next place, in whichever queue: one that has lapsed is not taken for another in a
    /// later queue of its key.
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
    /// Places that were handed over, and not taken yet: at most one for each waiter. Where the
    /// store knows of them, they have a permit.
    handed: Vec<Option<PermitId>>,
    in_a_row: u8,
    /// Until when a place is left to other processes.
    yields_until: Instant,
}

/// Who waits for places, which may be handed over.
pub(in crate::engine) trait TakesPlaces: Sync {
    /// Leaves the place of a permit that was handed over, and is not needed.
    fn leave(&self, permit: PermitId);
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

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 && self.lock().by_key.contains_key(key)
    }

    /// When the first in the queue of this key tries again.
    pub(super) fn front(&self, key: &[u8]) -> Option<Instant> {
        self.lock().by_key.get(key).map(|queue| queue.retry_at)
    }

    /// A place at the end of the queue of a key, for attempts that take at most so long; `None` if
    /// too many callers wait already.
    pub(super) fn join<'a>(
        &'a self,
        key: &[u8],
        attempt: Duration,
        taker: Option<&'a dyn TakesPlaces>,
    ) -> Option<QueuePlace<'a>> {
        let mut queues = self.lock();
        if self.waiting.load(Ordering::Relaxed) >= MAX_WAITERS {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = Turn { comes: Arc::new(Notify::new()), runtime: runtime(), attempt };
        let key: Box<[u8]> = key.into();
        let number = queues.join(&key, &turn);
        Some(QueuePlace { queues: self, key, number, turn, taker })
    }

    /// Hands a place over to the first that waits for one of this key; says whether there is one.
    /// If not, it is to be left; so it is after some in a row, if the place is `shared` with other
    /// processes.
    pub(in crate::engine) fn hand_over(&self, key: &[u8], permit: Option<PermitId>, shared: bool) -> bool {
        // One that joins at this moment finds the place when it asks again.
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut queues = self.lock();
        let Some(queue) = queues.by_key.get_mut(key) else { return false };
        let yields = shared && queue.in_a_row >= MOST_IN_A_ROW;
        if yields {
            (queue.in_a_row, queue.yields_until) = (0, Instant::now() + YIELD);
        }
        if yields || queue.handed.len() >= queue.places.len() {
            return false;
        }
        queue.in_a_row = queue.in_a_row.saturating_add(1);
        queue.handed.push(permit);
        if let Some(first) = queue.places.values().next() {
            first.comes.notify_one();
        }
        true
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
            let lapses_at = now + turn.attempt + LATE;
            let (handed, in_a_row) = (Vec::new(), 0);
            let queue = Queue { places, retry_at: now, lapses_at, handed, in_a_row, yields_until: now };
            self.by_key.insert(key.into(), queue);
        }
        number
    }
}

impl Queue {
    /// Takes a place out; if it was the first, the turn is the next one's. Says whether any are
    /// left.
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

    /// Takes out the first place, whose turn has lapsed, and those on its runtime, unless that is
    /// the one that runs this.
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
pub(super) struct QueuePlace<'a> {
    /// Who waits, where it is places of calls in flight that are waited for.
    taker: Option<&'a dyn TakesPlaces>,
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

impl QueuePlace<'_> {
    /// Waits for the turn, and if it is there already until `retry_at`; says whether that was in
    /// time.
    pub(super) async fn turn(&mut self, retry_at: Instant, until: Instant) -> bool {
        if self.keeps_turn_until(retry_at) {
            if self.taker.is_some() {
                while let Some(at) = self.asks_at(retry_at, until) {
                    let _ = tokio::time::timeout_at(at, self.turn.comes.notified()).await;
                }
            } else {
                tokio::time::sleep_until(retry_at).await;
            }
        }
        loop {
            match self.stand() {
                Stand::First => return true,
                Stand::Behind(_) if Instant::now() >= until => return false,
                Stand::Behind(lapses_at) => {
                    // A turn that has come meanwhile is kept by the notification, and else it was
                    // time to look.
                    let _ = tokio::time::timeout_at(until.min(lapses_at), self.turn.comes.notified()).await;
                }
            }
        }
    }

    /// When it asks for a place, but not before `retry_at`, unless one is handed over; `None` if
    /// that is now. It does not ask while a place is left to others, if its time allows that.
    fn asks_at(&self, retry_at: Instant, until: Instant) -> Option<Instant> {
        let queues = self.queues.lock();
        let queue = queues.by_key.get(&self.key).filter(|queue| queue.is_first(self.number))?;
        let at = retry_at.max(queue.yields_until.min(until));
        (queue.handed.is_empty() && Instant::now() < at).then_some(at)
    }

    /// The permit whose place was handed over, if this has the turn.
    pub(super) fn take_handed(&self) -> Option<PermitId> {
        self.taker?;
        let mut queues = self.queues.lock();
        let queue = queues.by_key.get_mut(&self.key).filter(|queue| queue.is_first(self.number))?;
        queue.handed.pop().flatten()
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

    /// Where it stands now. A turn that has lapsed is taken away, and its place with it: its owner
    /// joins again at the end.
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

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        self.queues.waiting.fetch_sub(1, Ordering::Relaxed);
        let Some(queue) = queues.by_key.get_mut(&self.key) else { return };
        let is_left = !queue.leave(self.number, Instant::now());
        // What is handed over to none that waits is left, after the lock: the store may be foreign.
        let excess = queue.handed.split_off(queue.places.len().min(queue.handed.len()));
        if is_left {
            queues.by_key.remove(&self.key);
        }
        drop(queues);
        if let Some(taker) = self.taker {
            excess.into_iter().flatten().for_each(|permit| taker.leave(permit));
        }
    }
}

#[cfg(test)]
mod tests;

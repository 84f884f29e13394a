//! [`Turns`]: the turns of callers that wait, first come, first served, for each key that refuses.
//!
//! The first caller in a queue has the turn: it alone tries again, at the time that its last
//! refusal named, and has the turn until that attempt ends. If it is dropped, or a second late
//! because its runtime is not driven, the next caller has the turn; the late one joins at the end.
//!
//! The admission of the first tells how much room is left: so many callers have the turn then, all
//! at once. One after the other they would be served no faster than a distant store answers, and a
//! queue that once began would never end under a load far below the limit. Behind a refused caller
//! none has the turn: what is left may be enough for a light call and not for a heavy one.
//!
//! One lock guards all queues of a limiter, and is never held across an `.await`. A turn that
//! arrives between two looks at the queue is not lost: [`Notify`] keeps one notification until it
//! is awaited, and a caller that wakes looks at the queue, so a surplus notification does no harm.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::pace;

/// The most callers that wait for one key, and for all keys of a limiter; further callers are
/// refused at once. The first [`FIRST_OF_KEY`] of a key always find room, so that the waiters of
/// other keys cannot take it.
const MAX_OF_KEY: usize = 1_000;
const MAX_OF_LIMITER: usize = 50_000;
const FIRST_OF_KEY: usize = 16;
/// The most callers of a key that have the turn at once.
const MOST_AT_ONCE: u64 = 64;
/// The delay of the first caller in a queue after which the next one has the turn.
const LATE: Duration = Duration::from_secs(1);
/// The time of wake-ups in a row after which one is left out, if a key's permits are shared with
/// other processes: these only ask now and then, and must find a permit.
const LONGEST_ROW: Duration = Duration::from_millis(500);

/// The key that callers wait for, and the version of the policies that they go by: calls under a
/// new set wait behind none of an older one.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::engine) struct QueueKey<'a> {
    pub(in crate::engine) key: &'a [u8],
    pub(in crate::engine) policies: u64,
}

impl QueueKey<'_> {
    fn owned(self) -> Box<[u8]> {
        [self.key, &self.policies.to_le_bytes()].concat().into()
    }
}

/// The queues of one limiter, one for each key that callers wait for.
#[derive(Default)]
pub(in crate::engine) struct Turns {
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    by_key: HashMap<Box<[u8]>, KeyQueue>,
    /// The number of the next caller, over all queues: a lapsed number never equals another in a
    /// later queue of its key.
    next: u64,
}

/// The callers that wait for one key, by number; never empty. The first has the turn.
struct KeyQueue {
    waiters: BTreeMap<u64, Waiter>,
    /// The number of waiters whose stacks have another key, by the hash of that key.
    beside: HashMap<u64, u64>,
    /// The most callers that have the turn, from the first on; at least 1.
    at_once: usize,
    /// The first of the wake-ups in a row.
    row_since: Option<Instant>,
}

struct Waiter {
    /// Notifies the waiter to look at the queue.
    comes: Arc<Notify>,
    /// `true` if the waiter had the turn, was refused, and waits for its next attempt.
    is_refused: bool,
    /// The start of the next attempt, if known.
    retry_at: Instant,
    /// The latest end of that attempt. [`LATE`] after it, the first caller loses the turn.
    ends_at: Instant,
    /// Hashes of the other keys in the waiter's stack.
    others: Arc<[u64]>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of callers that wait, including those whose turn has lapsed: each has a [`Turn`].
    fn waiting(self: &Arc<Self>) -> usize {
        Arc::strong_count(self) - 1
    }

    /// The time of the next attempt of the first caller in the key's queue; `None` if no caller
    /// waits.
    pub(in crate::engine) fn front(self: &Arc<Self>, key: QueueKey<'_>) -> Option<Instant> {
        if self.waiting() == 0 {
            return None;
        }
        let key = key.owned();
        let queues = self.lock();
        let first = queues.by_key.get(&key)?.waiters.values().next();
        first.map(|first| first.retry_at)
    }

    /// `true` if [`join`](Self::join) would find room.
    pub(in crate::engine) fn has_room<'k>(
        self: &Arc<Self>,
        key: QueueKey<'_>,
        others: impl Iterator<Item = (&'k [u8], u64)>,
    ) -> bool {
        let waiting = self.waiting();
        waiting == 0 || self.lock().room(&key.owned(), others, waiting).is_some()
    }

    /// Joins the end of a key's queue. `None` if it is full, or if as many of its callers as the
    /// number given with one of `others` have that key in their stacks too.
    pub(in crate::engine) fn join<'k>(
        self: &Arc<Self>,
        key: QueueKey<'_>,
        others: impl Iterator<Item = (&'k [u8], u64)>,
    ) -> Option<Turn> {
        let key = key.owned();
        let mut queues = self.lock();
        let others = queues.room(&key, others, self.waiting())?;
        let comes = Arc::new(Notify::new());
        let number = queues.join(&key, &comes, &others);
        Some(Turn {
            turns: Arc::clone(self),
            key,
            number,
            comes,
            others,
        })
    }

    /// Wakes the first caller that waits for this key, because a permit was released. A caller that
    /// joins at this moment finds the permit when it asks.
    pub(in crate::engine) fn wake(self: &Arc<Self>, key: QueueKey<'_>, is_shared: bool) {
        if self.waiting() == 0 {
            return;
        }
        let key = key.owned();
        let mut queues = self.lock();
        let Some(queue) = queues.by_key.get_mut(&key) else {
            return;
        };
        let now = Instant::now();
        if is_shared && now - *queue.row_since.get_or_insert(now) >= LONGEST_ROW {
            queue.row_since = None;
            return;
        }
        let first = queue.waiters.values().next();
        debug_assert!(first.is_some(), "a queue that is empty is taken away");
        if let Some(first) = first {
            first.comes.notify_one();
        }
    }
}

impl Queues {
    /// The hashes of the `others`, if the queue of `key` has room for a caller with those, while so
    /// many are `waiting` for all keys.
    fn room<'k>(
        &self,
        key: &[u8],
        others: impl Iterator<Item = (&'k [u8], u64)>,
        waiting: usize,
    ) -> Option<Arc<[u64]>> {
        let queue = self.by_key.get(key);
        let of_key = queue.map_or(0, |queue| queue.waiters.len());
        if of_key >= MAX_OF_KEY || (waiting >= MAX_OF_LIMITER && of_key >= FIRST_OF_KEY) {
            return None;
        }
        let others = others.map(|(other, most)| {
            let hash = self.by_key.hasher().hash_one(other);
            let of_other = queue.and_then(|queue| queue.beside.get(&hash));
            (of_other.copied().unwrap_or(0) < most).then_some(hash)
        });
        others.collect()
    }

    /// Adds a caller at the end of the queue of a key, and returns its number.
    fn join(&mut self, key: &[u8], comes: &Arc<Notify>, others: &Arc<[u64]>) -> u64 {
        let number = self.next;
        self.next += 1;
        let now = Instant::now();
        let queue = self.by_key.entry(key.into()).or_insert_with(|| KeyQueue {
            waiters: BTreeMap::new(),
            beside: HashMap::new(),
            at_once: 1,
            row_since: None,
        });
        let waiter = Waiter {
            comes: Arc::clone(comes),
            is_refused: false,
            retry_at: now,
            ends_at: now,
            others: Arc::clone(others),
        };
        queue.waiters.insert(number, waiter);
        for other in &**others {
            *queue.beside.entry(*other).or_default() += 1;
        }
        number
    }
}

impl KeyQueue {
    /// Removes a caller. If it had the turn, others have it from now on, because its runtime may
    /// not be driven. `true` if callers are left.
    fn leave(&mut self, number: u64) -> bool {
        let had_turn = self.has_turn(number);
        let gone = self.waiters.remove(&number);
        for other in gone.iter().flat_map(|gone| &*gone.others) {
            if let Entry::Occupied(mut many) = self.beside.entry(*other) {
                *many.get_mut() -= 1;
                if *many.get() == 0 {
                    many.remove();
                }
            }
        }
        if had_turn && let Some(mut first) = self.waiters.first_entry() {
            let first = first.get_mut();
            first.ends_at = first.ends_at.max(Instant::now());
            let waiting = self.with_turn().filter(|(_, waiter)| !waiter.is_refused);
            waiting.for_each(|(_, waiter)| waiter.comes.notify_one());
        }
        !self.waiters.is_empty()
    }

    /// The callers that have the turn.
    fn with_turn(&self) -> impl Iterator<Item = (&u64, &Waiter)> {
        let mut is_refused = false;
        let first = self.waiters.iter().take(self.at_once);
        first.take_while(move |(_, waiter)| !std::mem::replace(&mut is_refused, waiter.is_refused))
    }

    fn has_turn(&self, number: u64) -> bool {
        self.with_turn().any(|(with_turn, _)| *with_turn == number)
    }

    fn is_first(&self, number: u64) -> bool {
        self.waiters.keys().next() == Some(&number)
    }
}

/// A caller's position in the queue of a key; dropping it leaves the queue.
pub(in crate::engine) struct Turn {
    turns: Arc<Turns>,
    key: Box<[u8]>,
    number: u64,
    comes: Arc<Notify>,
    others: Arc<[u64]>,
}

impl Turn {
    pub(in crate::engine) fn is_of(&self, turns: &Arc<Turns>, key: QueueKey<'_>) -> bool {
        Arc::ptr_eq(&self.turns, turns) && self.key == key.owned()
    }

    /// Waits for the turn. A caller that has it waits until `retry_at` or, if `is_woken`, until a
    /// permit is released before that. `false` if the turn did not arrive before `until`.
    pub(in crate::engine) async fn wait(
        &mut self,
        retry_at: Instant,
        until: Instant,
        is_woken: bool,
    ) -> bool {
        if self.announce(true, retry_at, retry_at) {
            if is_woken {
                let _ = pace::timeout_at(retry_at, self.comes.notified()).await;
            } else {
                let _ = pace::timeout_at(retry_at, pending::<()>()).await;
            }
        }
        while let Some(lapses_at) = self.waits_until() {
            if Instant::now() >= until {
                return false;
            }
            // A turn that has come meanwhile is kept by the notification, and else it was time to
            // look.
            let _ = pace::timeout_at(until.min(lapses_at), self.comes.notified()).await;
        }
        true
    }

    /// Keeps the turn for an attempt that begins now and takes at most `longest`.
    pub(in crate::engine) fn begin(&self, longest: Duration) {
        let now = Instant::now();
        self.announce(false, now, now + longest);
    }

    /// Ends an attempt after which the key has room for so many more callers.
    pub(in crate::engine) fn end(&self, room: u64) {
        let mut queues = self.turns.lock();
        let queue = queues.by_key.get_mut(&self.key);
        if let Some(queue) = queue.filter(|queue| queue.is_first(self.number)) {
            queue.at_once = usize::try_from(room.clamp(1, MOST_AT_ONCE)).unwrap_or(1);
        }
    }

    /// Sets when the next attempt begins and ends. `true` if this caller has the turn; if not, it
    /// waits for that.
    fn announce(&self, is_refused: bool, retry_at: Instant, ends_at: Instant) -> bool {
        let mut queues = self.turns.lock();
        let Some(queue) = queues.by_key.get_mut(&self.key) else {
            return false;
        };
        let has_turn = queue.has_turn(self.number);
        if let Some(waiter) = queue.waiters.get_mut(&self.number) {
            (waiter.retry_at, waiter.ends_at) = (retry_at, ends_at);
            waiter.is_refused = is_refused && has_turn;
        }
        has_turn
    }

    /// The time at which the first caller's turn lapses; `None` if this caller has the turn.
    /// Removes callers whose turn has lapsed; if this is one, it joins again at the end.
    fn waits_until(&mut self) -> Option<Instant> {
        let mut queues = self.turns.lock();
        loop {
            let queue = queues
                .by_key
                .get_mut(&self.key)
                .filter(|queue| queue.waiters.contains_key(&self.number));
            let Some(queue) = queue else {
                self.number = queues.join(&self.key, &self.comes, &self.others);
                continue;
            };
            if queue.has_turn(self.number) {
                return None;
            }
            // The time of its next attempt is past: it waits to be notified.
            if let Some(waiter) = queue.waiters.get_mut(&self.number) {
                waiter.is_refused = false;
            }
            let (&first, waiter) = queue.waiters.first_key_value()?;
            let lapses_at = waiter.ends_at + LATE;
            if Instant::now() < lapses_at {
                return Some(lapses_at);
            }
            queue.leave(first);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
        let is_left = queues
            .by_key
            .get_mut(&self.key)
            .is_some_and(|queue| !queue.leave(self.number));
        if is_left {
            queues.by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn join(turns: &Arc<Turns>) -> Option<Turn> {
        let (key, policies) = (b"key", 0);
        turns.join(QueueKey { key, policies }, std::iter::empty())
    }

    #[test]
    fn a_key_for_which_nobody_waits_any_more_is_forgotten() {
        let turns = Arc::default();
        drop(join(&turns));
        assert!(turns.lock().by_key.is_empty());
    }

    /// Of two callers with the turn, the second is refused, then the first; and while the second
    /// waits for its next attempt, the first alone has the turn.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_loses_the_turn_while_it_waits_is_notified_when_it_comes_again() {
        let turns = Arc::default();
        let [admitted, mut first, mut second] = [(); 3].map(|()| join(&turns).unwrap());
        admitted.end(2);
        drop(admitted);
        let (start, millis) = (Instant::now(), Duration::from_millis);
        let until = start + millis(10_000);
        let second = second.wait(start + millis(1), until, false);
        let first = async {
            first.end(0);
            assert!(first.wait(start + millis(2), until, false).await);
            first.end(1);
            drop(first);
        };
        let (has_turn, ()) = tokio::join!(second, first);
        assert!(
            has_turn && start.elapsed() < millis(10),
            "{:?}",
            start.elapsed()
        );
    }
}

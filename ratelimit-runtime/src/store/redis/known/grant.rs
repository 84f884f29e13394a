//! [`Grant`]: units of one key that were taken ahead, while they are fetched, spent and given back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::{Handle, Id};
use tokio::sync::{Notify, watch};

use super::known_key::KnownKey;
use super::moment::Moment;
use crate::rule::Algorithm;
use crate::store::redis::scripts::{Granted, Reply};
use crate::store::{Request, Verdict};

/// Added to the units that are left once no more may be spent.
const OVER: u64 = 1 << 63;

pub(crate) struct Grant {
    pub(super) of: KnownKey,
    /// The lease for which units are taken, in microseconds.
    pub(super) lease: u64,
    /// The number of units to take.
    pub(super) wanted: u64,
    /// The runtime whose task fetches them.
    runtime: Option<Id>,
    left: AtomicU64,
    taken: OnceLock<Lease>,
    changed: Notify,
    /// `true` once no caller waits for the reply. A receiver is a caller that waits, or that has
    /// waited and not spent yet.
    fetched: watch::Sender<bool>,
    /// The task holds the receiver until the rest has been given back.
    open: watch::Sender<()>,
}

/// The units that the server has granted.
struct Lease {
    granted: Granted,
    /// The standing of the limits before the grant: the cost left in the limit with the least, and
    /// the time until that limit is unused.
    before: Verdict,
    /// The time at which the reply arrived.
    at: Moment,
    /// The end of the lease; for a grant of no units, the time at which the next may be fetched.
    until: u64,
}

impl Grant {
    /// A grant to fetch for this request.
    pub(super) fn new(request: &Request<'_>, hash: u64, wanted: u64, now: u64) -> Self {
        Self {
            of: KnownKey::new(request, hash, now),
            lease: request.prefetch_us.into(),
            wanted,
            runtime: current(),
            left: AtomicU64::new(0),
            taken: OnceLock::new(),
            changed: Notify::new(),
            fetched: watch::Sender::default(),
            open: watch::Sender::default(),
        }
    }

    /// The request that takes `units`, or gives them back.
    pub(super) fn request(&self, units: u64) -> Request<'_> {
        Request {
            key: &self.of.key,
            algorithm: self.of.algorithm,
            limits: &self.of.limits,
            cost: units,
            prefetch_us: u32::try_from(self.lease).unwrap_or(u32::MAX),
            ..Request::PLAIN
        }
    }

    /// `true` if callers have waited for the grant: no other call may spend before them.
    pub(super) fn is_waited_for(&self) -> bool {
        self.fetched.receiver_count() > 0
    }

    /// `true` if the grant has, or may get, enough units for a call of this cost.
    pub(super) fn may_admit(&self, units: u64, now: Moment) -> bool {
        let left = self.left.load(Ordering::Acquire);
        let fits = |taken: &Lease| left >= units && taken.lasts(now);
        left < OVER && self.taken.get().is_none_or(fits)
    }

    /// A receiver that stands for a waiting caller until it is dropped.
    pub(super) fn waiting(&self) -> watch::Receiver<bool> {
        self.fetched.subscribe()
    }

    /// Waits for the reply, if it may have units for this caller too. It does not wait for a task
    /// of another runtime, which reads no reply while it sleeps.
    pub(super) async fn fetched(&self, waiting: &mut watch::Receiver<bool>) {
        let has_room = self.fetched.receiver_count() as u64 <= self.wanted;
        if has_room && self.runtime == current() {
            // Its sender is this grant.
            let _ = waiting.wait_for(|is_over| *is_over).await;
        }
    }

    /// `true` if no more units may be spent.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) >= OVER
    }

    /// The most units that a task of this runtime may have to give back.
    pub(super) fn owes(&self) -> u64 {
        if self.runtime != current() {
            0
        } else if self.taken.get().is_none() {
            self.wanted
        } else {
            self.left()
        }
    }

    /// A receiver for the task that fetches the grant and gives back the rest.
    pub(super) fn opened(&self) -> watch::Receiver<()> {
        self.open.subscribe()
    }

    /// Waits until the task has ended: the server has answered to the units given back, or will
    /// not. It does not wait for a task of another runtime, which may be asleep.
    pub(crate) async fn given_back(&self) {
        if self.runtime == current() {
            self.open.closed().await;
        }
    }

    /// Spends `units`, if as many are left and the lease is not over.
    pub(super) fn spend(&self, units: u64, now: Moment) -> Option<Verdict> {
        let taken = self.taken.get().filter(|taken| taken.lasts(now))?;
        let fits = |left| (left < OVER && left >= units).then(|| left - units);
        let before = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        self.of.note_use(now.time);
        if before == units || before == taken.granted.units {
            self.changed.notify_one();
        }
        Some(taken.verdict(self.of.algorithm, before - units, now))
    }

    /// `true` if a call of this cost that finds too few units is to fetch the next grant.
    pub(super) fn is_used_up(&self, units: u64, now: Moment) -> bool {
        let is_spent = |taken: &Lease| {
            let rests = taken.granted.units == 0;
            !taken.lasts(now) || !rests && self.left.load(Ordering::Relaxed) < units
        };
        self.taken.get().is_some_and(is_spent)
    }

    /// Takes the reply, which arrived `now` to a question sent at `sent`. Returns the microseconds
    /// until the grant is over.
    pub(super) fn open(&self, reply: Reply, sent: Moment, now: Moment) -> u64 {
        let granted = reply.granted();
        let Granted { units, lease, .. } = granted;
        // Nothing is granted where little is left, and will not be a moment later.
        let lease = if units == 0 {
            self.lease
        } else {
            lease / 500 * 499
        };
        let until = if now.epoch == sent.epoch {
            sent.time + lease
        } else {
            now.time
        };
        // It may be over before it came.
        self.left.fetch_add(units, Ordering::Relaxed);
        // After the units, without which it would look used up.
        let is_first = self
            .taken
            .set(Lease {
                granted,
                before: reply.verdict(),
                at: now,
                until,
            })
            .is_ok();
        debug_assert!(is_first, "one task fetches it, once");
        self.fetched.send_replace(true);
        until.saturating_sub(now.time)
    }

    /// Ends the grant: no more units may be spent. Returns, the first time, how many were spent.
    pub(super) fn end(&self) -> u64 {
        let left = self.left.fetch_or(OVER, Ordering::AcqRel);
        self.changed.notify_one();
        self.fetched.send_replace(true);
        let granted = self.taken.get().map_or(0, |taken| taken.granted.units);
        if left < OVER {
            granted.saturating_sub(left)
        } else {
            0
        }
    }

    /// The units that the limits had left before the server granted any.
    pub(super) fn remaining(&self) -> u64 {
        self.taken.get().map_or(0, |taken| taken.before.remaining)
    }

    /// Waits until the first or the last unit is spent, or the grant has [ended](Self::end).
    /// Returns the units left; `None` if the grant has ended.
    pub(super) async fn changed(&self) -> Option<u64> {
        if self.left.load(Ordering::Acquire) < OVER {
            self.changed.notified().await;
        }
        let left = self.left.load(Ordering::Acquire);
        (left < OVER).then_some(left)
    }

    /// The units that are left.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire) & !OVER
    }

    /// The grant to report to the server at its end: if units are left and, for a bucket, also if
    /// all were spent, because they drain from then on. `None` also if the server may have lost its
    /// data.
    pub(super) fn owed(&self, epoch: u64) -> Option<Granted> {
        let Lease { granted, at, .. } = self.taken.get()?;
        let is_owed = self.left() > 0 || self.of.algorithm.has_burst() && granted.units > 0;
        (at.epoch == epoch && is_owed).then_some(*granted)
    }
}

fn current() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

impl Lease {
    fn lasts(&self, now: Moment) -> bool {
        now.time < self.until && now.epoch == self.at.epoch
    }

    fn verdict(&self, algorithm: Algorithm, left: u64, now: Moment) -> Verdict {
        let Self {
            granted, before, ..
        } = *self;
        let spent = granted.units - left;
        let elapsed = now.time.saturating_sub(self.at.time);
        // The newest units of a log are spent first, so that what is given back are the oldest: a
        // log has to remember its newest unit when that goes.
        let ticket = if algorithm.row().is_log {
            granted.ticket + left
        } else {
            granted.ticket
        };
        Verdict {
            remaining: before.remaining.saturating_sub(spent),
            reset_after_us: before.reset_after_us.saturating_sub(elapsed),
            ticket,
            cached: true,
            ..before
        }
    }
}

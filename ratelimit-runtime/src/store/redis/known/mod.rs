//! [`Known`]: what a store answers without asking its server.
//!
//! A flood of calls that are refused would cost the server a call each. A refusal says when its
//! request will be admitted at the earliest, so until then this process refuses by itself all
//! requests that have the same key, algorithm, limits (with every `max`) and block, and cost no
//! less; by a block, whatever their cost and block. For a higher cost the wait is a lower bound,
//! and for a lower one the time until the block ends. Behind a block no wait is told that only open
//! reservations make: the server begins it anew with each answer.
//!
//! - **Learnt** from decisions, and from looks and refused stacks where the request has no block or
//!   is refused by one. A decision would set a block that is not set yet.
//! - **Held from the time of sending**: a slot that the server frees is free here. The wait counts
//!   from the reply, so it is never too short.
//! - **Never older than a second**: that is how late a change elsewhere is seen. A refusal by a
//!   block outlives that while the server is away.
//! - **Void at once** by changes of the key through this store, along with refusals that are on
//!   their way, and by a new connection.
//! - **Bounded** in number: of a few, the refusal that has answered none for longest makes room.
//!
//! Errors, refusals for want of a place, and refusals of a [rounded](Verdict::rounded) length are
//! never kept.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use self::refusals::{Miss, Moment, Refusals};
use crate::clock::{Clock, TokioClock};
use crate::store::{Request, Verdict};

mod refusals;

/// The refusals that a store knows.
pub struct Known {
    refusals: Refusals,
    clock: Box<dyn Clock>,
    /// Grows with each new connection, perhaps to a server that has lost its data.
    epoch: Arc<AtomicU64>,
}

/// A request that the server is asked: what was known of it, and when.
#[derive(Debug, Clone, Copy)]
pub struct Asking(Miss, Moment);

impl Known {
    /// For how many refusals there is room unless set.
    pub const CAPACITY: usize = 8_192;

    /// Room for 8,192 refusals that hold for a second, of the connections that `epoch` counts.
    #[must_use]
    pub fn new(epoch: Arc<AtomicU64>) -> Self {
        Self {
            refusals: Refusals::new(Self::CAPACITY, micros(Duration::from_secs(1))),
            clock: Box::new(TokioClock::new()),
            epoch,
        }
    }

    /// Room for about so many refusals; with 0, nothing is kept. A refusal takes some 180 bytes and
    /// its key, and the empty room 8 bytes for each.
    pub fn set_capacity(&mut self, refusals: usize) {
        self.refusals = Refusals::new(refusals, self.refusals.staleness);
    }

    /// Sets how old a refusal may be.
    #[cfg(feature = "_tests")]
    pub fn set_staleness(&mut self, staleness: Duration) {
        self.refusals.staleness = micros(staleness);
    }

    /// Counts on the clock that the store goes by, where it takes its time from this process.
    /// Without it, time is tokio's monotonic clock.
    pub fn set_clock(&mut self, clock: impl Clock) {
        self.clock = Box::new(clock);
    }

    /// Whether it keeps anything.
    pub(crate) fn is_on(&self) -> bool {
        self.refusals.are_kept()
    }

    fn now(&self) -> Moment {
        Moment {
            time: micros(self.clock.now()),
            epoch: self.epoch.load(Ordering::Acquire),
        }
    }

    fn find(&self, request: &Request<'_>, is_away: impl FnOnce() -> bool) -> Result<Verdict, Miss> {
        self.refusals.find(request, || self.now(), is_away)
    }

    /// The refusal of a request that is known and holds; also an old one by a block, if the server
    /// of the key is away.
    pub fn refusal(
        &self,
        request: &Request<'_>,
        is_away: impl FnOnce() -> bool,
    ) -> Option<Verdict> {
        self.find(request, is_away).ok()
    }

    /// The same.
    ///
    /// # Errors
    ///
    /// None is known: the server has to be asked, and [`decided`](Self::decided) takes its verdict.
    pub fn look(
        &self,
        request: &Request<'_>,
        is_away: impl FnOnce() -> bool,
    ) -> Result<Verdict, Asking> {
        // The request is sent later: a refusal that holds from here on also holds from then on.
        self.find(request, is_away)
            .map_err(|miss| Asking(miss, self.now()))
    }

    /// What a request is asked with that goes to the server whatever is known.
    #[must_use]
    pub fn asking(&self, request: &Request<'_>) -> Asking {
        Asking(self.refusals.miss(request), self.now())
    }

    /// The same for each request of a stack, if anything is kept.
    #[must_use]
    pub fn asking_all(&self, requests: &[Request<'_>]) -> Vec<Asking> {
        let asked = requests.iter().filter(|_| self.is_on());
        asked.map(|request| self.asking(request)).collect()
    }

    /// Takes the verdict of a decision: keeps a refusal, and forgets the key after an admission.
    pub fn decided(&self, request: &Request<'_>, asking: Asking, verdict: Verdict) -> Verdict {
        if verdict.allowed {
            self.refusals.forget_of(asking.0.hash, request.key());
        }
        self.refused(request, asking, verdict)
    }

    /// Takes the verdict of a question that charges nothing, and sets the block of its request:
    /// keeps a refusal. That of a server whose clock is behind waits for the clock too, and is kept
    /// as any other.
    pub fn refused(
        &self,
        request: &Request<'_>,
        Asking(miss, looked_up): Asking,
        verdict: Verdict,
    ) -> Verdict {
        if !verdict.allowed && !verdict.rounded && verdict.retry_after_us != Verdict::NEVER {
            self.refusals
                .keep(request, miss, looked_up, self.now(), verdict);
        }
        verdict
    }

    /// Takes the verdict of a look: keeps a refusal. Where the request has a block that is not set
    /// yet, a decision would set it. A look that admits says nothing of what is kept for a higher
    /// cost.
    pub fn looked(&self, request: &Request<'_>, asking: Asking, verdict: Verdict) -> Verdict {
        if verdict.blocked || request.block.first_us() == 0 {
            self.refused(request, asking, verdict)
        } else {
            verdict
        }
    }

    /// Takes the verdicts of a stack: forgets its keys if it was charged; else keeps its refusals,
    /// each as of a look.
    pub fn decided_all(
        &self,
        requests: &[Request<'_>],
        asking: Vec<Asking>,
        verdicts: &[Verdict],
        is_charged: bool,
    ) {
        for ((request, asking), verdict) in requests.iter().zip(asking).zip(verdicts) {
            let is_of = |other: &&Request<'_>| other.key() == request.key();
            if is_charged {
                self.refusals.forget_of(asking.0.hash, request.key());
            } else if requests.iter().filter(is_of).count() == 1 {
                // A key that stands twice may be refused for a charge that was given back.
                let _ = self.looked(request, asking, *verdict);
            }
        }
    }

    /// To be held by an operation that changes a key: the key's refusals are forgotten when the
    /// operation is over, or given up, as it may have been carried out then.
    pub fn changing<'a>(&'a self, key: &'a [u8]) -> Changing<'a> {
        Changing {
            refusals: &self.refusals,
            key,
        }
    }
}

/// Forgets a key when it is dropped.
#[must_use = "dropping it forgets the key"]
pub struct Changing<'a> {
    refusals: &'a Refusals,
    key: &'a [u8],
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.refusals.forget(self.key);
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl fmt::Debug for Changing<'_> {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changing").finish_non_exhaustive()
    }
}

fn micros(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(u64::from(duration.subsec_micros()))
}

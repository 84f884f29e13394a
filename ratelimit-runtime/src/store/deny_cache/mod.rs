//! [`DenyCache`]: refuses without asking the store what that would refuse.

use std::fmt;
use std::time::Duration;

use self::refusals::{Miss, Moment, Refusals};
use super::built_in::{BuiltInStore, Health, Sealed};
use super::{Answer, Entry, PlaceRequest, Request, Settled, Store, StoreError, Verdict};
use crate::clock::{Clock, TokioClock};

mod refusals;

/// A layer around a store that answers a request without asking, if a refusal of a moment ago
/// tells that it would be refused.
///
/// A refusal says when its request will be admitted at the earliest. Until then all requests are
/// refused that have the same key, algorithm, limits (with every `max`) and block, and cost no
/// less; by a block, whatever their cost and block. For a higher cost the wait is a lower bound,
/// and for a lower one the time until the block ends. Behind a block no wait is told that only open
/// reservations make: the store begins it anew with each answer.
///
/// - **Learnt** from decisions, and from looks and refused stacks where the request has no block or
///   is refused by one. A decision would set a block that is not set yet.
/// - **Held from the time of sending**: a slot that the store frees is free here. The wait counts from
///   the reply, so it is never too short.
/// - **Never older than a second**: that is how late a change elsewhere is seen. A refusal by a block
///   outlives that while the store is away.
/// - **Void at once** by changes of the key through this layer, along with refusals that are on
///   their way, and by a store that [connects anew](BuiltInStore::epoch).
/// - **Bounded** in number: of a few, the refusal that has answered none for longest makes room.
///
/// Errors, refusals for want of a place, and refusals of a [rounded](Verdict::rounded) length are
/// never kept.
pub struct DenyCache<S> {
    inner: S,
    refusals: Refusals,
    clock: Box<dyn Clock>,
}

impl<S: Store> DenyCache<S> {
    /// For how many refusals there is room unless set.
    pub const CAPACITY: usize = 8_192;

    /// A layer around this store, with room for 8,192 refusals that hold for a second.
    #[must_use]
    pub fn new(inner: S) -> Self {
        let refusals = Refusals::new(Self::CAPACITY, micros(Duration::from_secs(1)));
        Self {
            inner,
            refusals,
            clock: Box::new(TokioClock::new()),
        }
    }

    /// Room for about so many refusals; with 0, nothing is kept. A refusal takes some 180 bytes and
    /// its key, and the empty room 8 bytes for each.
    #[must_use]
    pub fn with_capacity(mut self, refusals: usize) -> Self {
        self.refusals = Refusals::new(refusals, self.refusals.staleness);
        self
    }

    /// How old a refusal may be.
    #[must_use]
    pub fn with_staleness(mut self, staleness: Duration) -> Self {
        self.refusals.staleness = micros(staleness);
        self
    }

    /// Counts on the clock that the store goes by, where it takes its time from this process.
    /// Without it, time is tokio's monotonic clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Box::new(clock);
        self
    }

    pub(crate) fn inner(&self) -> &S {
        &self.inner
    }

    pub(crate) fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Whether it keeps anything.
    pub(crate) fn is_on(&self) -> bool {
        self.refusals.are_kept()
    }

    fn own(&self) -> &dyn BuiltInStore {
        (&self.inner as &dyn Store).own()
    }

    fn now(&self, request: &Request<'_>) -> Moment {
        Moment {
            time: micros(self.clock.now()),
            epoch: self.own().epoch(request),
        }
    }

    fn find(&self, request: &Request<'_>) -> Result<Verdict, Miss> {
        self.refusals.find(
            request,
            || self.now(request),
            || self.own().health(request) != Health::Up,
        )
    }

    /// The refusal that answers a request.
    ///
    /// # Errors
    ///
    /// A miss, and when it was: the store has to be asked, and [`learnt`](Self::learnt) takes its
    /// answer.
    fn look(&self, request: &Request<'_>) -> Result<Verdict, Asking> {
        // The request is sent later: a refusal that holds from here on also holds from then on.
        self.find(request).map_err(|miss| (miss, self.now(request)))
    }

    /// The answer of the cache, or else the store's, which `ask` waits for; it is remembered. `ask`
    /// makes its future where it waits: a future that is handed over would be held twice.
    pub(crate) fn answer<'a, F: Future<Output = Result<Verdict, StoreError>> + Send + 'a>(
        &'a self,
        request: Request<'a>,
        ask: impl FnOnce() -> F + Send + 'a,
    ) -> Answer<'a, Verdict> {
        match self.look(&request) {
            Ok(refusal) => Answer::ready(Ok(refusal)),
            Err(miss) => Answer::later(async move {
                ask()
                    .await
                    .map(|verdict| self.learnt(&request, miss, verdict))
            }),
        }
    }

    /// What a request is asked with that goes to the store whatever is known.
    fn asking(&self, request: &Request<'_>) -> Asking {
        (self.refusals.miss(request), self.now(request))
    }

    /// Keeps the refusal of a decision, and forgets the key after an admission.
    fn learnt(&self, request: &Request<'_>, asking: Asking, verdict: Verdict) -> Verdict {
        if verdict.allowed {
            self.refusals.forget_of(asking.0.hash, request.key());
        }
        self.refused(request, asking, verdict)
    }

    /// Keeps a refusal by the store. That of a store whose clock is behind waits for the clock too,
    /// and is kept as any other.
    fn refused(
        &self,
        request: &Request<'_>,
        (miss, looked_up): Asking,
        verdict: Verdict,
    ) -> Verdict {
        if !verdict.allowed && !verdict.rounded && verdict.retry_after_us != Verdict::NEVER {
            self.refusals
                .keep(request, miss, looked_up, self.now(request), verdict);
        }
        verdict
    }

    /// Keeps the refusal of a look. Where the request has a block that is not set yet, a decision
    /// would set it.
    fn looked(&self, request: &Request<'_>, asking: Asking, verdict: Verdict) -> Verdict {
        if verdict.blocked || request.block.first_us() == 0 {
            self.refused(request, asking, verdict)
        } else {
            verdict
        }
    }

    fn all_asking(&self, requests: &[Request<'_>]) -> Vec<Asking> {
        let asked = requests.iter().filter(|_| self.is_on());
        asked.map(|request| self.asking(request)).collect()
    }

    /// Forgets the keys of a stack that was charged; else keeps its refusals, each as of a look.
    fn all_learnt(
        &self,
        requests: &[Request<'_>],
        asking: Vec<Asking>,
        verdicts: &[Verdict],
        are_charged: bool,
    ) {
        for ((request, asking), verdict) in requests.iter().zip(asking).zip(verdicts) {
            let is_of = |other: &&Request<'_>| other.key() == request.key();
            if are_charged {
                self.refusals.forget_of(asking.0.hash, request.key());
            } else if requests.iter().filter(is_of).count() == 1 {
                // A key that stands twice may be refused for a charge that was given back.
                let _ = self.looked(request, asking, *verdict);
            }
        }
    }

    /// The answer of an operation that changes a key. The key's refusals are forgotten when the
    /// operation is over, or given up: then it may have been carried out.
    fn changing<'a, T: Unpin + Send + 'a>(
        &'a self,
        request: Request<'a>,
        answer: Answer<'a, T>,
    ) -> Answer<'a, T> {
        Answer::later(async move {
            let _changed = ForgetOnDrop {
                refusals: &self.refusals,
                key: request.key(),
            };
            answer.await
        })
    }
}

/// What a request is asked with: the state of the cache, and when that was.
type Asking = (Miss, Moment);

/// Forgets a key when it is dropped.
struct ForgetOnDrop<'a> {
    refusals: &'a Refusals,
    key: &'a [u8],
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.refusals.forget(self.key);
    }
}

impl<S: Store> Store for DenyCache<S> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.inner)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        match self.look(&request) {
            Ok(refusal) => Answer::ready(Ok(refusal)),
            Err(miss) => self
                .inner
                .acquire(request)
                .map(move |verdict| self.learnt(&request, miss, verdict)),
        }
    }

    /// Always at the store. One that admits says nothing of what is kept for a higher cost.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let asking = self.asking(&request);
        self.inner
            .peek(request)
            .map(move |verdict| self.looked(&request, asking, verdict))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.changing(request, self.inner.reset(request))
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.changing(request, self.inner.refund(request, ticket))
    }

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        self.changing(request, self.inner.settle(request, ticket, actual_cost))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.changing(request, self.inner.block(request, duration))
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.changing(request, self.inner.unblock(request))
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl<S: Store> BuiltInStore for DenyCache<S> {
    fn below(&self) -> Option<&dyn BuiltInStore> {
        Some(self.own())
    }

    fn known_refusal(&self, request: &Request<'_>) -> Option<Verdict> {
        self.find(request).ok()
    }

    /// The store decides all members, also where one is known to refuse.
    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        let asking = self.all_asking(requests);
        self.own().acquire_all(requests).map(move |verdicts| {
            let are_charged = verdicts.iter().all(|verdict| verdict.allowed);
            self.all_learnt(requests, asking, &verdicts, are_charged);
            verdicts
        })
    }

    /// An offence charges nothing: an admission changes nothing.
    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let asking = self.asking(&request);
        self.own()
            .offend(request)
            .map(move |verdict| self.refused(&request, asking, verdict))
    }

    fn enter<'a>(&'a self, place: PlaceRequest, requests: &'a [Request<'a>]) -> Answer<'a, Entry> {
        let asking = self.all_asking(requests);
        self.own().enter(place, requests).map(move |entry| {
            self.all_learnt(requests, asking, &entry.verdicts, entry.is_entered());
            entry
        })
    }
}

impl<S> fmt::Debug for DenyCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache").finish_non_exhaustive()
    }
}

fn micros(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(u64::from(duration.subsec_micros()))
}

//! [`DenyCache`]: answers a request again that was refused, without asking the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::refusal::{Freshness, Moment};
pub(in crate::store) use self::refusals::Miss;
use self::refusals::{CacheAnswer, Refusals};
use crate::clock::{Clock, TokioClock};
use crate::store::lookup::Lookup;
use crate::store::{Answer, Entry, Health, PlaceRequest, Request, Settled, Store, StoreError, StoreErrorKind, Verdict};

mod enter;
mod refusal;
mod refusals;

const DEFAULT_STALENESS: Duration = Duration::from_secs(1);

/// A layer around a store that answers a request which was refused a moment ago without asking
/// again.
///
/// A refusal says when the same request will be admitted at the earliest. Until then, and for one
/// second at most, the same request has the same answer: the same key, algorithm, limits with every
/// `max`, cost, block and reservation. So a flood of refused calls costs its store a request or two
/// a second, and its process neither an allocation nor a task.
///
/// - **Counted from the time of sending**: a slot that the store frees is free here. `retry_after`
///   and `reset_after` are what the store would say now, but for reservations that have lapsed
///   since; `remaining` is what it said.
/// - **Never older than the bound** ([`with_staleness`](Self::with_staleness)): that is how late a
///   reset, a refund, an unblock, a raised limit or another admission elsewhere is seen, and a
///   clock that was set forward. In the last eighth of that time, one caller asks the store while
///   the others go on being answered here; if that caller gives up, the next one asks.
/// - **At once**: what goes through this layer. An admission, `reset`, `refund`, `commit`,
///   `release`, `block` and `unblock` make it forget the key, along with refusals that are on their
///   way; a store that [connects anew](Store::epoch) makes it forget all.
/// - **While the store is away** (its health is not up, and it gives no answer), a refusal by a
///   block holds until the block is over.
/// - **Bounded** ([`with_capacity`](Self::with_capacity)). A refusal outlasts as many
///   newcomers as it has answered calls, up to 255.
///
/// It answers [`acquire`](Store::acquire) and [`acquire_now`](Store::acquire_now), and marks what
/// it answers as [`cached`](Verdict::cached). So it does for a call that [enters](Store::enter)
/// beside one request. Admissions, errors, groups, places that are taken, and refusals of a
/// [rounded](Verdict::rounded) length are never kept, and `peek` always asks the store.
///
/// [`RedisStore`](crate::RedisStore) has one inside. Around another store:
///
/// ```
/// use ratelimit_runtime::store::DenyCache;
/// use ratelimit_runtime::{Key, Limit, MemoryStore, RateLimitError, RateLimiter, Rule, Source};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), RateLimitError> {
/// const LOGIN: Rule = Rule::new("login", Limit::per_minute(1));
///
/// let limiter = RateLimiter::with_store(DenyCache::new(MemoryStore::new())); // in place of a store far away
/// let alice = Key::of("alice");
/// limiter.acquire(&LOGIN, &alice).await?;
/// for source in [Source::Store, Source::DenyCache, Source::DenyCache] {
///     let Err(RateLimitError::Exceeded(refusal)) = limiter.acquire(&LOGIN, &alice).await else { panic!() };
///     assert_eq!(refusal.source(), source);
/// }
/// # Ok(())
/// # }
/// ```
pub struct DenyCache<S> {
    inner: S,
    refusals: Arc<Refusals>,
    capacity: usize,
    clock: TokioClock,
    /// The store's, where it takes its time from this process.
    store_clock: Option<Box<dyn Clock>>,
}

impl<S: Store> DenyCache<S> {
    /// For how many refusals there is room unless something else is said.
    pub(crate) const CAPACITY: usize = 8_192;

    /// A layer around this store, with room for 8,192 refusals that hold for a second.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            refusals: Arc::new(Refusals::new(Self::CAPACITY, micros(DEFAULT_STALENESS))),
            capacity: Self::CAPACITY,
            clock: TokioClock::new(),
            store_clock: None,
        }
    }

    /// Room for about so many refusals; with 0, nothing is kept. A refusal takes some 180 bytes and
    /// its key, and the empty room 8 bytes for each.
    #[must_use]
    pub fn with_capacity(mut self, refusals: usize) -> Self {
        self.capacity = refusals;
        self.refusals = Arc::new(Refusals::new(refusals, self.refusals.staleness));
        self
    }

    /// How old a refusal may be; one second unless set. With zero, nothing is kept.
    #[must_use]
    pub fn with_staleness(mut self, staleness: Duration) -> Self {
        self.refusals = Arc::new(Refusals::new(self.capacity, micros(staleness)));
        self
    }

    /// Counts `retry_after` on the clock that the store goes by. Without it, time is that of the
    /// process: tokio's monotonic clock. A refusal is never older than the bound by either.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.store_clock = Some(Box::new(clock));
        self
    }

    #[cfg(feature = "redis")]
    pub(crate) fn inner(&self) -> &S {
        &self.inner
    }

    #[cfg(feature = "redis")]
    pub(crate) fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Whether it keeps anything.
    pub(crate) fn is_on(&self) -> bool {
        self.refusals.are_kept()
    }

    fn now(&self, request: &Request<'_>) -> Moment {
        let process = micros(self.clock.now());
        let store = self.store_clock.as_ref().map_or(process, |clock| micros(clock.now()));
        Moment { process, store, epoch: self.inner.epoch(request) }
    }

    /// The refusal that was found, if it holds.
    fn refusal(&self, found: CacheAnswer, request: &Request<'_>) -> Result<Verdict, Miss> {
        match found {
            CacheAnswer::Refusal(verdict) => Ok(verdict),
            CacheAnswer::OldBlock(block, _) if self.is_away(request) => Ok(block),
            CacheAnswer::OldBlock(_, miss) | CacheAnswer::Miss(miss) => Err(miss),
        }
    }

    /// [`acquire_now`](Store::acquire_now) where no refusal was found that holds by itself.
    fn acquire_now_without(
        &self,
        found: CacheAnswer,
        request: Request<'_>,
    ) -> Result<Result<Verdict, StoreError>, Lookup> {
        let miss = match self.refusal(found, &request) {
            Ok(refusal) => return Ok(Ok(refusal)),
            Err(miss) => miss,
        };
        match self.inner.acquire_now(request) {
            Ok(answer) => Ok(self.learn(&request, &Lookup::of(miss), answer)),
            // A lookup of a cache inside of this one is dropped: that cache looks again.
            Err(_inner) => Err(Lookup::of(miss)),
        }
    }

    /// The refusal that holds, by an earlier look or by a look now.
    ///
    /// # Errors
    ///
    /// What was looked up: the store has to be asked. It has no miss where nothing is kept.
    pub(in crate::store) fn look(&self, request: &Request<'_>, lookup: Lookup) -> Result<Verdict, Lookup> {
        if lookup.miss().is_some() || !self.is_on() {
            return Err(lookup);
        }
        let found = self.refusals.find(request, self.now(request));
        self.refusal(found, request).map_err(Lookup::of)
    }

    /// Keeps or forgets what the store's answer says, and gives the answer of the call.
    ///
    /// A timeout that arrives here is the store's own. The limiter's drops the future that would
    /// come here, and asks for the [`known_refusal`](Store::known_refusal).
    pub(in crate::store) fn learn(
        &self,
        request: &Request<'_>,
        lookup: &Lookup,
        answer: Result<Verdict, StoreError>,
    ) -> Result<Verdict, StoreError> {
        let Some(miss) = lookup.miss() else { return answer };
        match (&answer, miss.block()) {
            (Ok(verdict), _) if verdict.allowed => self.refusals.forget_missed(miss, request.key()),
            (Ok(verdict), _)
                if !verdict.rounded
                    && verdict.retry_after_us != Verdict::NEVER
                    && self.inner.epoch(request) == miss.epoch() =>
            {
                self.refusals.keep(request, miss, *verdict);
            }
            (Err(error), Some(block))
                if matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::TimedOut)
                    && self.is_away(request) =>
            {
                return Ok(block);
            }
            _ => {}
        }
        answer
    }

    fn is_away(&self, request: &Request<'_>) -> bool {
        self.inner.health(request) != Health::Up
    }

    /// The answer of an operation that changes a key. Its refusals are forgotten when that is over,
    /// or was given up.
    fn changing<'a, T: Unpin + Send + 'a>(&'a self, request: Request<'a>, answer: Answer<'a, T>) -> Answer<'a, T> {
        if !self.is_on() {
            return answer;
        }
        match answer.known() {
            Ok(result) => {
                self.refusals.forget(request.key());
                Answer::ready(result)
            }
            Err(answer) => Answer::later(async move {
                let _changed = ForgetOnDrop { refusals: &self.refusals, key: request.key() };
                answer.await
            }),
        }
    }
}

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
        self.acquire_after(request, Lookup::default())
    }

    fn acquire_now(&self, request: Request<'_>) -> Result<Result<Verdict, StoreError>, Lookup> {
        if !self.is_on() {
            return self.inner.acquire_now(request);
        }
        match self.refusals.find(&request, self.now(&request)) {
            CacheAnswer::Refusal(verdict) => Ok(Ok(verdict)),
            found => self.acquire_now_without(found, request),
        }
    }

    fn acquire_after<'a>(&'a self, request: Request<'a>, lookup: Lookup) -> Answer<'a, Verdict> {
        let lookup = match self.look(&request, lookup) {
            Ok(refusal) => return Answer::ready(Ok(refusal)),
            Err(lookup) => lookup,
        };
        match self.inner.acquire(request).known() {
            Ok(answer) => Answer::ready(self.learn(&request, &lookup, answer)),
            Err(answer) if lookup.miss().is_none() => answer,
            Err(answer) => Answer::later(async move {
                let answer = answer.await;
                // The miss is dropped with this future, and with it the turn to ask again.
                self.learn(&request, &lookup, answer)
            }),
        }
    }

    fn known_refusal(&self, request: &Request<'_>) -> Option<Verdict> {
        match self.refusals.known(request, self.now(request)) {
            Some((Freshness::Fresh | Freshness::Due, refusal)) => Some(refusal),
            Some((Freshness::OldBlock, block)) if self.is_away(request) => Some(block),
            _ => self.inner.known_refusal(request),
        }
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.inner.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.changing(request, self.inner.reset(request))
    }

    fn decides_together(&self, requests: &[Request<'_>]) -> bool {
        self.inner.decides_together(requests)
    }

    /// The store decides all of it: a group that is refused is told the longest wait, and that of a
    /// member which is not known to refuse is known to the store alone.
    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        let answer = self.inner.acquire_all(requests);
        if !self.is_on() {
            return answer;
        }
        let learn = move |answer: Result<Vec<Verdict>, StoreError>| {
            if matches!(&answer, Ok(verdicts) if verdicts.iter().all(|verdict| verdict.allowed)) {
                for request in requests {
                    self.refusals.forget(request.key());
                }
            }
            answer
        };
        match answer.known() {
            Ok(answer) => Answer::ready(learn(answer)),
            Err(answer) => Answer::later(async move { learn(answer.await) }),
        }
    }

    fn enter<'a>(&'a self, place: PlaceRequest<'a>, requests: &'a [Request<'a>]) -> Answer<'a, Entry> {
        self.enter_unless_refused(place, requests)
    }

    fn enters_together(&self, place: &PlaceRequest<'_>, requests: &[Request<'_>]) -> bool {
        self.inner.enters_together(place, requests)
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.changing(request, self.inner.refund(request, ticket))
    }

    fn settle<'a>(&'a self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, Settled> {
        self.changing(request, self.inner.settle(request, ticket, actual_cost))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.changing(request, self.inner.block(request, duration))
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.changing(request, self.inner.unblock(request))
    }
}

impl<S: fmt::Debug> fmt::Debug for DenyCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache")
            .field("inner", &self.inner)
            .field("refusals", &self.refusals)
            .finish_non_exhaustive()
    }
}

fn micros(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(duration.subsec_micros()))
}

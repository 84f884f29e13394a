//! [`Store`]: where the state of limits lives. A backend is one type that implements this one
//! trait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod answer;
mod capabilities;
mod health;
mod layer;
mod lookup;
pub(crate) mod memory;
mod page;
mod place;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod request;
mod verdict;

pub use self::answer::Answer;
pub use self::capabilities::{Capabilities, Feature};
pub use self::health::Health;
pub use self::layer::DenyCache;
pub use self::lookup::Lookup;
pub use self::page::{Cursor, Page};
pub use self::place::{Entry, OwnedPlaceRequest, PermitId, PlaceRequest};
pub(crate) use self::request::Reserves;
pub use self::request::{OwnedRequest, Request};
pub use self::verdict::{Settled, Verdict};
pub use crate::error::{StoreError, StoreErrorKind};

/// A place that keeps the state of limits and decides on it.
///
/// # Contract
///
/// For every key on its own:
///
/// 1. **Atomic.** Two calls on one key are decided one after the other, wherever they come from.
/// 2. **Exact.** With [`Algorithm::SlidingWindow`](crate::Algorithm::SlidingWindow), what was
///    admitted in any `(t − window, t]` is at most `max`; a slot used at `t` is free at
///    `t + window`. Each call is measured against the `max` it brings.
/// 3. **A refusal consumes nothing and writes nothing.** Several limits are all looked at before
///    any is charged.
/// 4. **The clock is the store's**, in microseconds. A clock that steps back never admits more, and
///    never keeps a key longer than its window from then on.
/// 5. **Everything expires**: nothing outlives the longest window by itself.
/// 6. [`Verdict::retry_after`] is the earliest moment at which the same request would be admitted
///    if no other call arrives, `None` where time does not end a refusal, and
///    [`Verdict::remaining`] is never too high.
///
/// The crate `ratelimit-conformance` is this contract as tests: run them on your store with
/// `ratelimit_conformance::conformance!`.
///
/// No store is asked to acquire or peek a request that weighs more than its limits admit at once,
/// nor one with a limit of 0. Resets, blocks and the like may bring either.
///
/// # Layers
///
/// A layer is a store around a store: it returns that from [`inner`](Self::inner), implements
/// [`acquire`](Self::acquire), [`peek`](Self::peek) and [`reset`](Self::reset), and overrides what
/// else it is about. All other methods are those of the inner store, but for those that would
/// decide without the layer's `acquire`: [`acquire_now`](Self::acquire_now),
/// [`acquire_all`](Self::acquire_all), with [`decides_together`](Self::decides_together), and
/// [`enter`](Self::enter) with requests, with [`enters_together`](Self::enters_together). Unless a
/// layer overrides them, every decision on limits goes through its `acquire`.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use ratelimit_runtime::store::{Answer, Request, Verdict};
/// use ratelimit_runtime::{MemoryStore, RateLimiter, Store};
///
/// /// Counts what the store is asked to decide.
/// struct Counted<S> {
///     store: S,
///     decisions: AtomicU64,
/// }
///
/// impl<S: Store> Store for Counted<S> {
///     fn inner(&self) -> Option<&dyn Store> {
///         Some(&self.store)
///     }
///
///     fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
///         self.decisions.fetch_add(1, Ordering::Relaxed);
///         self.store.acquire(request)
///     }
///
///     fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
///         self.store.peek(request)
///     }
///
///     fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
///         self.store.reset(request)
///     }
/// }
///
/// let limiter = RateLimiter::with_store(Counted { store: MemoryStore::new(), decisions: AtomicU64::new(0) });
/// # let _ = limiter;
/// ```
pub trait Store: Send + Sync + 'static {
    /// The store that this one is a [layer](#layers) around.
    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    /// Decides, and charges the cost if it admits.
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict>;

    /// [`acquire`](Self::acquire) without waiting: for a store in memory, or a layer that knows the
    /// answer already.
    ///
    /// # Errors
    ///
    /// A [`Lookup`], where the answer takes waiting. Then nothing has been charged, and the limiter
    /// goes on with [`acquire_after`](Self::acquire_after), or gives the call up.
    fn acquire_now(&self, request: Request<'_>) -> Result<Result<Verdict, StoreError>, Lookup> {
        let _ = request;
        Err(Lookup::default())
    }

    /// [`acquire`](Self::acquire) after [`acquire_now`](Self::acquire_now) has returned this lookup
    /// for the same request. A store that remembers nothing in lookups leaves it as it is.
    fn acquire_after<'a>(&'a self, request: Request<'a>, lookup: Lookup) -> Answer<'a, Verdict> {
        drop(lookup);
        self.acquire(request)
    }

    /// Decides as [`acquire`](Self::acquire) would, and charges nothing.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict>;

    /// Forgets everything about the key; says whether there was anything.
    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool>;

    /// Whether [`acquire_all`](Self::acquire_all) decides these requests in one step. Where it does
    /// not, a limiter asks one after the other, and gives back what it has charged when one
    /// refuses, fails, or the caller gives up; a process that dies in between leaves it charged
    /// until it expires.
    fn decides_together(&self, requests: &[Request<'_>]) -> bool {
        let _ = requests;
        false
    }

    /// Decides several requests together: all of them are charged, or none. Gives one verdict for
    /// each, in order; the requests are charged if all verdicts say `allowed`. Asked only where
    /// [`decides_together`](Self::decides_together) says so.
    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        let _ = requests;
        unsupported("this store decides one key at a time")
    }

    /// Gives back what an admission was charged: the request's cost, under the
    /// [`ticket`](Verdict::ticket) of its verdict. Says whether there was anything left to give
    /// back. Never creates a key, and never frees more than was taken.
    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        match self.inner() {
            Some(inner) => inner.refund(request, ticket),
            None => unsupported("this store cannot give back what was charged"),
        }
    }

    /// Ends a [reservation](Request::is_reservation): charges `actual_cost` in its place, which is
    /// the request's cost to commit it and 0 to release it.
    ///
    /// - What is less than was reserved frees the rest of it. What is more is charged on top, now,
    ///   also beyond the limits: they refuse until it has drained or left.
    /// - Where the reservation has left a limit's window meanwhile, all of it is charged now,
    ///   unless the request [is sent again](Request::is_sent_again).
    /// - After that, at most twice the capacity of a limit is used; the excess is
    ///   [dropped](Settled::dropped).
    /// - All of this is one step. In a sliding window a reservation that was settled or reset
    ///   changes nothing any more.
    fn settle<'a>(&'a self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, Settled> {
        match self.inner() {
            Some(inner) => inner.settle(request, ticket, actual_cost),
            None => unsupported("this store has no reservations"),
        }
    }

    /// Refuses everything for the key until `duration` has passed, in place of an earlier block.
    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        match self.inner() {
            Some(inner) => inner.block(request, duration),
            None => unsupported("this store has no blocks"),
        }
    }

    /// Ends a block, and leaves what was charged as it is. Says whether there was one.
    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        match self.inner() {
            Some(inner) => inner.unblock(request),
            None => unsupported("this store has no blocks"),
        }
    }

    /// Takes a place for a call in flight, if fewer than [`max`](PlaceRequest::max) are taken, and
    /// charges the requests: all of it in one step, or nothing. With requests it is asked only
    /// where [`enters_together`](Self::enters_together) says so; there may be none.
    ///
    /// - Places are counted over all processes that share the store. Each call is measured against
    ///   the `max` it brings.
    /// - The permit that is [replaced](PlaceRequest::replaces) leaves in the same step, first, and
    ///   whatever comes of the rest.
    /// - A place stays taken until it is [left](Self::leave). The store sees to it by itself that
    ///   it is, for as long as this process lives, and that the places of a process that died are
    ///   free after the [lease](PlaceRequest::lease).
    /// - An answer that is an error, or is dropped, may have taken the place: the limiter then
    ///   leaves it by its permit, as any other.
    fn enter<'a>(&'a self, place: PlaceRequest<'a>, requests: &'a [Request<'a>]) -> Answer<'a, Entry> {
        match self.inner() {
            Some(inner) if requests.is_empty() => inner.enter(place, requests),
            _ => unsupported("this store does not limit calls in flight"),
        }
    }

    /// Whether [`enter`](Self::enter) takes this place and charges these requests in one step.
    /// Where it does not, a limiter takes the place first, and leaves it when a limit refuses.
    fn enters_together(&self, place: &PlaceRequest<'_>, requests: &[Request<'_>]) -> bool {
        let _ = (place, requests);
        false
    }

    /// Leaves the place of a permit. It returns at once, and may be called on any thread, with a
    /// runtime or without, also for a permit that never entered or has left: then it does nothing.
    /// A store that needs time for it does it later, by itself.
    fn leave(&self, place: PlaceRequest<'_>) {
        if let Some(inner) = self.inner() {
            inner.leave(place);
        }
    }

    /// How many calls of the key are in flight, over all processes that share the store.
    fn in_flight<'a>(&'a self, place: PlaceRequest<'a>) -> Answer<'a, u64> {
        match self.inner() {
            Some(inner) => inner.in_flight(place),
            None => unsupported("this store does not limit calls in flight"),
        }
    }

    /// Some of the keys that are stored and begin with the request's, which is the part that all
    /// keys of a rule share; the page after this one begins at its [`next`](Page::next).
    ///
    /// All pages together have every key that is there from the first to the last of them. A key
    /// that comes or goes meanwhile may be missing, and any may be there more than once. One page
    /// is a bounded piece of work, however many keys there are; so it may be empty, and not be the
    /// last.
    fn keys<'a>(&'a self, request: Request<'a>, from: Option<Cursor>) -> Answer<'a, Page> {
        match self.inner() {
            Some(inner) => inner.keys(request, from),
            None => unsupported("this store does not list its keys"),
        }
    }

    /// What the store can do. It does not change while the store lives.
    fn capabilities(&self) -> Capabilities {
        self.inner().map_or_else(Capabilities::default, Store::capabilities)
    }

    /// Whether the store can decide this very request, beyond what its
    /// [`capabilities`](Self::capabilities) say: a combination that it has to refuse, a cost that
    /// is too large for it. Asked for each policy, without a key, before a limiter uses it; such a
    /// request is refused when it comes, too.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`], with what to choose instead.
    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.inner().map_or(Ok(()), |inner| inner.supports(request))
    }

    /// The server that keeps the state, as the metric `ratelimit_store_seconds` names it: its
    /// address or a name, nothing secret, and never a key. It does not change while the store
    /// lives. Empty for a store that is no server.
    fn server(&self) -> &str {
        self.inner().map_or("", Store::server)
    }

    /// How well the part of the store that this request goes to serves.
    fn health(&self, request: &Request<'_>) -> Health {
        self.inner().map_or(Health::Up, |inner| inner.health(request))
    }

    /// Grows whenever answers that the store has given to requests like this one may be void for
    /// another reason than time and calls: it is connected anew, perhaps to another server or to
    /// one that has forgotten. A layer that keeps answers keeps none beyond that.
    fn epoch(&self, request: &Request<'_>) -> u64 {
        self.inner().map_or(0, |inner| inner.epoch(request))
    }

    /// A refusal of the same request that this process knows and that still holds. It answers where
    /// the store gave no answer, before any policy does: a limit that is known to refuse is not
    /// switched off by a store that is late.
    fn known_refusal(&self, request: &Request<'_>) -> Option<Verdict> {
        self.inner().and_then(|inner| inner.known_refusal(request))
    }

    /// Says how long the limiter on this store waits for an answer, unless a rule says otherwise. A
    /// store tells a slow server by it. It is said once, before any request.
    fn answers_within(&self, timeout: Duration) {
        if let Some(inner) = self.inner() {
            inner.answers_within(timeout);
        }
    }

    /// Resolves when nothing is left that the store does without a caller: places that were
    /// [left](Self::leave) are free, or their leases have ended.
    fn settled(&self) -> Answer<'_, ()> {
        match self.inner() {
            Some(inner) => inner.settled(),
            None => Answer::ready(Ok(())),
        }
    }

    /// Resolves when the store can serve, or says why it never will. It may wait as long as it
    /// takes.
    fn ready(&self) -> Answer<'_, ()> {
        match self.inner() {
            Some(inner) => inner.ready(),
            None => Answer::ready(Ok(())),
        }
    }

    /// Resolves when the part of the store that this request goes to can serve, whatever other
    /// parts do, or says why it never will. It may wait as long as it takes. A store of one part
    /// leaves it to [`ready`](Self::ready).
    fn ready_for<'a>(&'a self, request: Request<'a>) -> Answer<'a, ()> {
        match self.inner() {
            Some(inner) => inner.ready_for(request),
            None => self.ready(),
        }
    }
}

fn unsupported<'a, T>(message: &'static str) -> Answer<'a, T> {
    Answer::ready(Err(StoreError::unsupported(message)))
}

/// The methods of a [`Store`] that leaves all of them to another one.
macro_rules! leaves_all_to {
    ($self:ident => $to:expr) => {
        fn inner(&$self) -> Option<&dyn Store> {
            $to.inner()
        }

        fn acquire<'a>(&'a $self, request: Request<'a>) -> Answer<'a, Verdict> {
            $to.acquire(request)
        }

        fn acquire_after<'a>(&'a $self, request: Request<'a>, lookup: Lookup) -> Answer<'a, Verdict> {
            $to.acquire_after(request, lookup)
        }

        leaves_rest_to!($self => $to);
    };
}

/// The same without [`Store::acquire`] and [`Store::acquire_after`].
macro_rules! leaves_rest_to {
    ($self:ident => $to:expr) => {
        fn acquire_now(&$self, request: Request<'_>) -> Result<Result<Verdict, StoreError>, Lookup> {
            $to.acquire_now(request)
        }

        fn peek<'a>(&'a $self, request: Request<'a>) -> Answer<'a, Verdict> {
            $to.peek(request)
        }

        fn reset<'a>(&'a $self, request: Request<'a>) -> Answer<'a, bool> {
            $to.reset(request)
        }

        fn decides_together(&$self, requests: &[Request<'_>]) -> bool {
            $to.decides_together(requests)
        }

        fn acquire_all<'a>(&'a $self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
            $to.acquire_all(requests)
        }

        fn refund<'a>(&'a $self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
            $to.refund(request, ticket)
        }

        fn settle<'a>(&'a $self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, Settled> {
            $to.settle(request, ticket, actual_cost)
        }

        fn block<'a>(&'a $self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
            $to.block(request, duration)
        }

        fn unblock<'a>(&'a $self, request: Request<'a>) -> Answer<'a, bool> {
            $to.unblock(request)
        }

        fn enter<'a>(&'a $self, place: PlaceRequest<'a>, requests: &'a [Request<'a>]) -> Answer<'a, Entry> {
            $to.enter(place, requests)
        }

        fn enters_together(&$self, place: &PlaceRequest<'_>, requests: &[Request<'_>]) -> bool {
            $to.enters_together(place, requests)
        }

        fn leave(&$self, place: PlaceRequest<'_>) {
            $to.leave(place);
        }

        fn in_flight<'a>(&'a $self, place: PlaceRequest<'a>) -> Answer<'a, u64> {
            $to.in_flight(place)
        }

        fn keys<'a>(&'a $self, request: Request<'a>, from: Option<Cursor>) -> Answer<'a, Page> {
            $to.keys(request, from)
        }

        fn capabilities(&$self) -> Capabilities {
            $to.capabilities()
        }

        fn supports(&$self, request: &Request<'_>) -> Result<(), StoreError> {
            $to.supports(request)
        }

        fn server(&$self) -> &str {
            $to.server()
        }

        fn health(&$self, request: &Request<'_>) -> Health {
            $to.health(request)
        }

        fn epoch(&$self, request: &Request<'_>) -> u64 {
            $to.epoch(request)
        }

        fn known_refusal(&$self, request: &Request<'_>) -> Option<Verdict> {
            $to.known_refusal(request)
        }

        fn answers_within(&$self, timeout: Duration) {
            $to.answers_within(timeout);
        }

        fn settled(&$self) -> Answer<'_, ()> {
            $to.settled()
        }

        fn ready(&$self) -> Answer<'_, ()> {
            $to.ready()
        }

        fn ready_for<'a>(&'a $self, request: Request<'a>) -> Answer<'a, ()> {
            $to.ready_for(request)
        }
    };
}
#[cfg(feature = "redis")]
pub(crate) use leaves_rest_to;

impl<S: Store + ?Sized> Store for Box<S> {
    leaves_all_to!(self => **self);
}

impl<S: Store + ?Sized> Store for Arc<S> {
    leaves_all_to!(self => **self);
}

impl<S: Store + ?Sized> Store for &'static S {
    leaves_all_to!(self => **self);
}

impl fmt::Debug for dyn Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

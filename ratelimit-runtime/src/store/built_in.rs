//! [`BuiltInStore`]: methods that a limiter calls only on the stores of this crate.

use std::time::Duration;

use super::{Answer, Entry, PlaceRequest, Request, Store, StoreError, Verdict, unsupported};

/// Code that has this value may ask a store for its [`BuiltInStore`], or implement one. It cannot
/// be named outside of this workspace, so that the trait can change.
#[derive(Debug, Clone, Copy)]
pub struct Sealed;

/// The operations of this crate's stores beyond [`Store`]. By default a method calls that of the
/// store [below](Self::below), or, without one, does what is right for a store of another crate.
pub trait BuiltInStore: Send + Sync {
    /// The store that this one is a layer around.
    fn below(&self) -> Option<&dyn BuiltInStore> {
        None
    }

    /// Whether these requests are decided in one step by [`acquire_all`](Self::acquire_all), or with
    /// a place by [`enter`](Self::enter). Where they are not, a limiter looks at all, reserves each,
    /// takes the place last, and gives back what it has if one of them refuses.
    fn decides_together(&self, place: Option<&PlaceRequest>, requests: &[Request<'_>]) -> bool {
        self.below()
            .is_some_and(|below| below.decides_together(place, requests))
    }

    /// Decides several requests together, with one verdict for each, in order: they are charged if
    /// all say `allowed`. Where one alone refuses, it sets its block; where several do, none does, as
    /// the call would not have run but for one of them. Asked only where
    /// [`decides_together`](Self::decides_together) says so.
    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        self.below().map_or_else(
            || unsupported("this store decides one key at a time"),
            |below| below.acquire_all(requests),
        )
    }

    /// Looks as [`peek`](Store::peek); where the limits refuse, sets the block of the request and
    /// counts a strike. It never charges, whatever the look says. A refusal by a block that lasts
    /// already, or by open reservations alone, sets none.
    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.below().map_or_else(
            || unsupported("this store sets a block only as it decides"),
            |below| below.offend(request),
        )
    }

    /// Takes a place for a call in flight, if fewer than [`max`](PlaceRequest::max) are taken, and
    /// charges the requests: all of it in one step, or nothing. With requests it is asked only
    /// where [`decides_together`](Self::decides_together) says so; there may be none.
    ///
    /// - A request that refuses sets its block only where a place is free and all others admit.
    /// - Places are counted over all processes that share the store. Each call is measured against
    ///   the `max` it brings.
    /// - A place stays taken until it is [left](Self::leave), as long as this process lives, and for
    ///   the [lease](PlaceRequest::lease) after that.
    /// - An answer that is an error, or is dropped, may have taken the place: the limiter leaves it.
    fn enter<'a>(&'a self, place: PlaceRequest, requests: &'a [Request<'a>]) -> Answer<'a, Entry> {
        self.below().map_or_else(
            || unsupported(NO_PLACES),
            |below| below.enter(place, requests),
        )
    }

    /// Leaves the place of a permit, if it has one. It returns at once, and may be called on any
    /// thread, with a runtime or without; a store that needs time for it does it later, by itself.
    fn leave(&self, place: &PlaceRequest) {
        self.below()
            .into_iter()
            .for_each(|below| below.leave(place));
    }

    /// How many calls of the key are in flight, over all processes that share the store.
    fn in_flight(&self, place: PlaceRequest) -> Answer<'_, u64> {
        self.below()
            .map_or_else(|| unsupported(NO_PLACES), |below| below.in_flight(place))
    }

    /// Whether the store can decide this very request, beyond what its
    /// [`capabilities`](Store::capabilities) say. Asked for each policy, without a key, before a
    /// limiter uses it; such a request is refused when it comes, too.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](super::StoreErrorKind::Unsupported), with what to choose instead.
    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.below().map_or(Ok(()), |below| below.supports(request))
    }

    /// The server that keeps the state, as the metric `ratelimit_store_seconds` names it: its
    /// address or a name, nothing secret, and never a key. It does not change while the store
    /// lives. Empty for a store that is no server.
    fn server(&self) -> &str {
        self.below().map_or("", |below| below.server())
    }

    /// How well the part of the store that this request goes to serves.
    fn health(&self, request: &Request<'_>) -> Health {
        self.below()
            .map_or(Health::Up, |below| below.health(request))
    }

    /// Grows whenever the store is connected anew, perhaps to another server or to one that has
    /// lost its data: answers to requests like this one may be void then.
    fn epoch(&self, request: &Request<'_>) -> u64 {
        self.below().map_or(0, |below| below.epoch(request))
    }

    /// A refusal of the same request that this process knows and that still holds: it answers a
    /// call before the store is asked, and also where the store gave no answer.
    fn known_refusal(&self, request: &Request<'_>) -> Option<Verdict> {
        self.below().and_then(|below| below.known_refusal(request))
    }

    /// The decision about a request, charged if it is an admission, where that takes no waiting; of
    /// a store that has to be waited for, a refusal that is [known](Self::known_refusal).
    fn decide_at_once(&self, request: &Request<'_>) -> Option<Verdict> {
        self.known_refusal(request)
    }

    /// Says how long the limiter on this store waits for an answer, unless a rule says otherwise. A
    /// store tells a slow server by it. It is said once, before any request.
    fn answers_within(&self, timeout: Duration) {
        if let Some(below) = self.below() {
            below.answers_within(timeout);
        }
    }

    /// Resolves once all work that the store does without a caller is done: places that were
    /// [left](Self::leave) are free, or their leases have ended.
    fn settled(&self) -> Answer<'_, ()> {
        self.below()
            .map_or_else(|| Answer::ready(Ok(())), |below| below.settled())
    }

    /// Resolves when the store can serve, or with the reason why it never will. It may wait as long
    /// as it takes: for the part of the store that the request goes to, regardless of other parts,
    /// or for all of them.
    fn ready_for<'a>(&'a self, part: Option<Request<'a>>) -> Answer<'a, ()> {
        self.below()
            .map_or_else(|| Answer::ready(Ok(())), |below| below.ready_for(part))
    }

    /// The same for all parts.
    fn ready(&self) -> Answer<'_, ()> {
        self.ready_for(None)
    }
}

/// How well a store serves, by which a limiter answers a request that got no reply in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// It serves. A request without an answer was one too many, or met an accident of its own: that
    /// is never a reason to let a call through unchecked.
    Up,
    /// It refuses writes because it is full: no reason to let a call through unchecked either.
    Full,
    /// It is connected, and does not serve: it does not answer, or says that it is busy or loading.
    Slow,
    /// It is not connected, or not yet.
    Down,
}

const NO_PLACES: &str = "this store does not limit calls in flight";

/// A store of another crate, which has none of this.
struct NotBuiltIn;

impl BuiltInStore for NotBuiltIn {}

impl dyn Store {
    /// The operations of this very store beyond the trait. Decisions are asked of it alone, because
    /// a layer sees every decision.
    #[doc(hidden)]
    #[inline]
    pub fn own(&self) -> &dyn BuiltInStore {
        self.built_in(Sealed).unwrap_or(&NotBuiltIn)
    }

    /// The operations beyond the trait: of this store, or of the one that its layers are around.
    #[doc(hidden)]
    pub fn innermost(&self) -> &dyn BuiltInStore {
        match (self.built_in(Sealed), self.inner()) {
            (Some(own), _) => own,
            (None, Some(inner)) => inner.innermost(),
            (None, None) => &NotBuiltIn,
        }
    }
}

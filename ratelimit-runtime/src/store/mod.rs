//! [`Store`]: keeps the state of limits, and decides. A backend is one type that implements this
//! trait.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod answer;
pub(crate) mod built_in;
mod capabilities;
pub(crate) mod layered;
pub(crate) mod memory;
mod page;
pub(crate) mod permit;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod request;
mod verdict;

pub use self::answer::Answer;
pub(crate) use self::built_in::{BuiltInStore, Health, Sealed};
pub use self::capabilities::{Capabilities, Feature};
pub use self::page::Page;
pub(crate) use self::permit::{PermitId, PermitRequest, PermitVerdict};
pub use self::request::Request;
pub use self::verdict::{Settled, Verdict};
pub(crate) use crate::algorithm::Reserves;
pub use crate::error::{StoreError, StoreErrorKind};

/// A place that keeps the state of limits and decides on it.
///
/// # Contract
///
/// For every key on its own:
///
/// 1. **Atomic.** Two calls on one key are decided one after the other, wherever they come from.
/// 2. **Exact.** With [`Algorithm::SlidingWindow`](crate::Algorithm::SlidingWindow), the cost
///    admitted in any `(t − window, t]` is at most `max`; a unit used at `t` is free at
///    `t + window`. Each call is measured against the `max` it brings.
/// 3. **A refusal consumes nothing**, and writes nothing but the block that it sets. Several limits
///    are all looked at before any is charged.
/// 4. **The clock is the store's**, in microseconds. A clock that steps back never admits more:
///    time stands still at the newest write of a key until the clock has caught up. Until then the
///    key is kept, and [`Verdict::retry_after`] includes the lag.
/// 5. **Everything expires** by itself: charges after at most two [horizons](Request::horizon), a
///    block and the offences before it when their times are over.
/// 6. [`Verdict::retry_after`] is the earliest moment at which the same request would be admitted
///    if no other call arrives (a layer that repeats a refusal, as
///    [`cached`](Verdict::cached) says, may tell an earlier one), `None` where time does not end a
///    refusal, and [`Verdict::remaining`] is never too high. Beside [`Request::prefetch`] both may
///    be a lease old.
///
/// The crate `ratelimit-conformance` is this contract as tests: run them on your store with
/// `ratelimit_conformance::conformance!`.
///
/// # Stacks
///
/// Where several rules are stacked on one call, a limiter [looks](Self::peek) at all their keys on
/// a store of another crate before it charges any. If all admit, it
/// [reserves](Request::is_reservation) their costs without their blocks, and
/// [commits](Self::settle) all reservations or releases them. Without reservations it charges, and
/// [refunds](Self::refund) where another rule refuses; a stack has at most one rule whose store
/// offers neither. The block of a rule that alone refuses is set by [`block`](Self::block).
///
/// A store of another crate has no permits for calls in flight: a rule with `concurrent` is
/// `Misconfigured` on it.
///
/// No store is asked to acquire or peek a request with a cost above what its limits admit at once,
/// nor one with a limit of 0. Resets, blocks and the like may bring either.
///
/// # Layers
///
/// A layer is a store around a store: it returns that from [`inner`](Self::inner), implements
/// [`acquire`](Self::acquire), [`peek`](Self::peek) and [`reset`](Self::reset), and overrides other
/// methods as it needs. The rest are those of the inner store. So are calls in flight and, of a
/// store of this crate, its health and the block that a refused stack sets, without a call of
/// [`block`](Self::block): but every decision on limits goes through the layer's `acquire`, one key
/// at a time.
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

    /// Decides, and charges the cost if it admits. A limiter calls it once for each decision.
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict>;

    /// Decides as [`acquire`](Self::acquire) would, and charges nothing.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict>;

    /// Forgets everything about the key; `true` if there was anything.
    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool>;

    /// Gives back the charge of an admission: the request's cost, under the
    /// [`ticket`](Verdict::ticket) of its verdict; `true` if any of it was left. Never creates a
    /// key, and never frees more than was taken.
    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        match self.inner() {
            Some(inner) => inner.refund(request, ticket),
            None => Answer::unsupported("this store cannot give back what was charged"),
        }
    }

    /// Ends a [reservation](Request::is_reservation): charges `actual_cost` in its place, which is
    /// the request's cost to commit it and 0 to release it.
    ///
    /// - A lower cost frees the rest of the reserved one. A higher one is charged on top, now, also
    ///   beyond the limits: they refuse until it has drained or left.
    /// - Where the reservation has left a limit's window meanwhile, all of it is charged now,
    ///   unless the request [is sent again](Request::is_sent_again).
    /// - After that, at most twice the capacity of a limit is used; the excess is
    ///   [dropped](Settled::dropped). What was reserved goes on counting against the other limits
    ///   whose windows it has not left.
    /// - All of this is one step. In a sliding window a reservation that was settled or reset
    ///   changes nothing any more.
    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        match self.inner() {
            Some(inner) => inner.settle(request, ticket, actual_cost),
            None => Answer::unsupported("this store has no reservations"),
        }
    }

    /// Refuses everything for the key until `duration`, rounded up to a microsecond, has passed, in
    /// place of an earlier block.
    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        match self.inner() {
            Some(inner) => inner.block(request, duration),
            None => Answer::unsupported("this store has no blocks"),
        }
    }

    /// Ends a block, and leaves charges as they are; `true` if there was one.
    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        match self.inner() {
            Some(inner) => inner.unblock(request),
            None => Answer::unsupported("this store has no blocks"),
        }
    }

    /// Some of the keys that are stored and begin with the request's, which is the part that all
    /// keys of a rule share; the page after this one begins at its [`next`](Page::next).
    ///
    /// All pages together have every key that is there from the first to the last of them. A key
    /// that comes or goes meanwhile may be missing, and any may be there more than once. One page
    /// is a bounded piece of work, however many keys there are; so it may be empty, and not be the
    /// last.
    fn keys<'a>(&'a self, request: Request<'a>, from: Option<Vec<u8>>) -> Answer<'a, Page> {
        match self.inner() {
            Some(inner) => inner.keys(request, from),
            None => Answer::unsupported("this store does not list its keys"),
        }
    }

    /// The algorithms and features of the store. They do not change while it lives.
    fn capabilities(&self) -> Capabilities {
        self.inner()
            .map_or_else(Capabilities::default, Store::capabilities)
    }

    /// The operations of a store of this crate beyond the trait.
    #[doc(hidden)]
    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        None
    }
}

macro_rules! pointers_to_stores {
    ($([$($store:tt)*] $pointer:ty;)*) => {$(
        /// A layer that does nothing of its own.
        impl $($store)* Store for $pointer {
            fn inner(&self) -> Option<&dyn Store> {
                Some(&**self)
            }

            fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
                (**self).acquire(request)
            }

            fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
                (**self).peek(request)
            }

            fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
                (**self).reset(request)
            }

            fn built_in(&self, sealed: Sealed) -> Option<&dyn BuiltInStore> {
                (**self).built_in(sealed)
            }
        }
    )*};
}

pointers_to_stores! {
    [<S: Store>] Box<S>;
    [<S: Store>] Arc<S>;
    [<S: Store>] &'static S;
    [] Box<dyn Store>;
    [] Arc<dyn Store>;
}

impl fmt::Debug for dyn Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

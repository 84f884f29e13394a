//! [`BuiltInStore`]: operations that a limiter asks only of the stores of this crate. They are not
//! in the trait `Store`, so that they can change without a change to other stores.

use std::time::Duration;

use super::answer::Answer;
use super::permit::{PermitRequest, PermitVerdict};
use super::request::Request;
use super::verdict::Verdict;
use crate::error::StoreError;
use crate::rule::RuleSummary;

/// Code that has this value may ask a store for its [`BuiltInStore`], or implement one. It cannot
/// be named outside of this workspace, so that the trait can change.
#[derive(Debug, Clone, Copy)]
pub struct Sealed;

/// The operations of this crate's stores beyond the trait `Store`. By default a method does what is
/// right for a store of another crate.
///
/// A limiter asks its `Box<dyn Store>`, which finds the store that answers. A layer of another
/// crate sees every decision, so those are asked of the outermost store alone; everything else of
/// the outermost one that has these operations.
pub trait BuiltInStore: Send + Sync {
    /// `true` if these requests, and the permit, are decided in one step by
    /// [`acquire_all`](Self::acquire_all). If not, a limiter looks at all requests, reserves all,
    /// acquires the permit, and then commits or releases the reservations.
    fn decides_together(&self, _permit: Option<&PermitRequest>, _requests: &[Request<'_>]) -> bool {
        false
    }

    /// Acquires the permit, if one is asked for and fewer than [`max`](PermitRequest::max) calls
    /// are in flight, and charges the requests: all of it in one step, or nothing. It is asked for
    /// a permit without requests, and else only where
    /// [`decides_together`](Self::decides_together) says so.
    ///
    /// - A request that refuses sets its block only where a permit is free and all others admit,
    ///   as the call would not have run but for one of them.
    /// - Permits are counted over all processes that share the store. Each call is measured against
    ///   the `max` it brings.
    /// - A permit is held until it is [released](Self::release_permit), as long as this process
    ///   lives, and for the [lease](PermitRequest::lease) after that.
    /// - Where the answer is an error, or is dropped, the permit may be held: the limiter releases
    ///   it.
    fn acquire_all<'a>(
        &'a self,
        _permit: Option<PermitRequest>,
        _requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        Answer::unsupported(NO_PERMITS)
    }

    /// Looks as `Store::peek`; where the limits refuse, sets the block of the request and counts a
    /// strike. It never charges, whatever the look says. A refusal by a block that lasts already,
    /// or by open reservations alone, sets none.
    fn offend<'a>(&'a self, _request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::unsupported("this store sets a block only as it decides")
    }

    /// Releases a permit, if it is held. It returns at once, and may be called on any
    /// thread, with a runtime or without; a store that needs time for it does it later, by itself.
    fn release_permit(&self, _permit: &PermitRequest) {}

    /// The number of calls of the key in flight, over all processes that share the store.
    fn in_flight(&self, _permit: PermitRequest) -> Answer<'_, u64> {
        Answer::unsupported(NO_PERMITS)
    }

    /// `Ok` if the store can decide a request with these limits, block and cost, which may rule out
    /// what the capabilities allow in general. A limiter asks this for each policy, by a request
    /// without a key, before the policy is in force; the store refuses such requests of calls, too.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](super::StoreErrorKind::Unsupported), with what to choose instead.
    fn supports(&self, _request: &Request<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// The server that keeps the state, as the metric `ratelimit_store_seconds` names it: its
    /// address or a name, nothing secret, and never a key. It does not change while the store
    /// lives. Empty for a store that is no server.
    #[allow(
        clippy::unnecessary_literal_bound,
        reason = "a store with a server names it"
    )]
    fn server(&self) -> &str {
        ""
    }

    /// The health of the part of the store that this request goes to, such as a node of a cluster.
    fn health(&self, _request: &Request<'_>) -> Health {
        Health::Up
    }

    /// The refusal of a request that this process knows and that still holds, for when the store
    /// gave no answer. Its wait is a lower bound if it is known from a request of another cost. A
    /// block holds longer if `is_away`: the store's health says that it does not serve.
    fn known_refusal(&self, _request: &Request<'_>, _is_away: bool) -> Option<Verdict> {
        None
    }

    /// The refusal of a request that this process knows, before the store is asked.
    fn refuses_at_once(&self, request: &Request<'_>) -> Option<Verdict> {
        self.known_refusal(request, false)
    }

    /// Decides a request without waiting, and charges it if it is admitted; `None` if the store has
    /// to be waited for. Such a store decides only by known refusals.
    fn decide_at_once(&self, request: &Request<'_>) -> Option<Verdict> {
        self.refuses_at_once(request)
    }

    /// Gives back the units that the store has taken ahead, in the background.
    fn give_back(&self) {}

    /// Sets how long the limiter waits for an answer, unless a rule says otherwise: a server that
    /// takes longer is slow. It is set once, before any request.
    fn answers_within(&self, _timeout: Duration) {}

    /// Notes a rule that a limiter with this prefix applies, for operators. It returns at once; a
    /// store that writes the rule does so in the background.
    fn note_rule(&self, _prefix: &str, _rule: &RuleSummary) {}

    /// Resolves once all work that the store does without a caller is done: permits that were
    /// [released](Self::release_permit) are free, or their leases have ended.
    fn settled(&self) -> Answer<'_, ()> {
        Answer::ready(Ok(()))
    }

    /// Resolves when the store can serve, or with the reason why it never will. It may wait as long
    /// as it takes: for the part of the store that the request goes to, regardless of other parts,
    /// or for all of them.
    fn ready_for<'a>(&'a self, _part: Option<Request<'a>>) -> Answer<'a, ()> {
        Answer::ready(Ok(()))
    }

    /// Resolves when all parts of the store can serve, or with the reason why they never will.
    fn ready(&self) -> Answer<'_, ()> {
        self.ready_for(None)
    }

    /// [`ready`](Self::ready) for a limiter with this prefix, which ends in a colon or is empty: a
    /// store whose user may not do what its calls do never will serve it.
    fn ready_under<'a>(&'a self, _prefix: &'a str) -> Answer<'a, ()> {
        self.ready()
    }
}

/// The health of a store, by which a limiter answers a request that got no reply in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// The store serves. A request without an answer met a high load or a failure of its own, and
    /// is not let through unchecked.
    Up,
    /// The store refuses writes because it is full. No call is let through unchecked.
    Full,
    /// The store is connected, but does not answer, or says that it is busy or loading.
    Slow,
    /// The store is not connected, or not yet.
    Down,
}

const NO_PERMITS: &str = "this store does not limit calls in flight";

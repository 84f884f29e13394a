//! Finds the store among several layers that answers a limiter.

use std::time::Duration;

use super::built_in::{BuiltInStore, Health, Sealed};
use super::{Answer, PermitRequest, PermitVerdict, Request, Store, StoreError, Verdict};
use crate::rule::RuleSummary;

/// A store of another crate, which has none of these operations.
struct NotBuiltIn;

impl BuiltInStore for NotBuiltIn {}

/// The store that decides: the outermost.
#[inline]
pub(crate) fn outermost(store: &dyn Store) -> &dyn BuiltInStore {
    store.built_in(Sealed).unwrap_or(&NotBuiltIn)
}

/// The store of the operations beyond decisions: the outermost store of this crate.
pub(crate) fn built_in(store: &dyn Store) -> &dyn BuiltInStore {
    match (store.built_in(Sealed), store.inner()) {
        (Some(store), _) => store,
        (None, Some(inner)) => built_in(inner),
        (None, None) => &NotBuiltIn,
    }
}

/// The store that acquires a permit and decides these requests in one step. A permit without
/// requests bypasses the layers of other crates.
pub(crate) fn acquires<'a>(store: &'a dyn Store, requests: &[Request<'_>]) -> &'a dyn BuiltInStore {
    if requests.is_empty() {
        built_in(store)
    } else {
        outermost(store)
    }
}

impl BuiltInStore for Box<dyn Store> {
    fn decides_together(&self, permit: Option<&PermitRequest>, requests: &[Request<'_>]) -> bool {
        outermost(&**self).decides_together(permit, requests)
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        built_in(&**self).offend(request)
    }

    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        acquires(&**self, requests).acquire_all(permit, requests)
    }

    fn release_permit(&self, permit: &PermitRequest) {
        built_in(&**self).release_permit(permit);
    }

    fn in_flight(&self, permit: PermitRequest) -> Answer<'_, u64> {
        built_in(&**self).in_flight(permit)
    }

    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        built_in(&**self).supports(request)
    }

    fn server(&self) -> &str {
        built_in(&**self).server()
    }

    fn health(&self, request: &Request<'_>) -> Health {
        built_in(&**self).health(request)
    }

    fn known_refusal(&self, request: &Request<'_>, is_away: bool) -> Option<Verdict> {
        built_in(&**self).known_refusal(request, is_away)
    }

    fn refuses_at_once(&self, request: &Request<'_>) -> Option<Verdict> {
        outermost(&**self).refuses_at_once(request)
    }

    #[inline]
    fn decide_at_once(&self, request: &Request<'_>) -> Option<Verdict> {
        outermost(&**self).decide_at_once(request)
    }

    fn give_back(&self) {
        built_in(&**self).give_back();
    }

    fn answers_within(&self, timeout: Duration) {
        built_in(&**self).answers_within(timeout);
    }

    fn note_rule(&self, prefix: &str, rule: &RuleSummary) {
        built_in(&**self).note_rule(prefix, rule);
    }

    fn settled(&self) -> Answer<'_, ()> {
        built_in(&**self).settled()
    }

    fn ready_for<'a>(&'a self, part: Option<Request<'a>>) -> Answer<'a, ()> {
        built_in(&**self).ready_for(part)
    }

    fn ready_under<'a>(&'a self, prefix: &'a str) -> Answer<'a, ()> {
        built_in(&**self).ready_under(prefix)
    }
}

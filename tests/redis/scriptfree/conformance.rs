//! The conformance suite, as far as it moves a clock of its own: fixed windows go by the server's.

use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, StoreError, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::testkit::conformance::{Capabilities, Feature};
use ratelimit_runtime::{Algorithm, RedisStore, Store, conformance};

use super::plain;

conformance!(log, log_store);
conformance!(log_in_full, unit_log, unit_costs());

mod log_with_costs {
    use super::{Algorithm, Capabilities, log_store};

    // All cases with costs but for the largest, which a sorted set does not take.
    ratelimit_runtime::__conformance_cases! { log_store, Capabilities::all(), Algorithm::SlidingWindow;
        calls_use_what_they_cost [Cost]
        a_refusal_names_the_exact_moment_for_its_cost [Cost]
        a_cost_of_0_charges_nothing [Cost]
        a_refund_of_a_heavy_call_gives_back_its_cost [Refund Cost]
    }
}

async fn log_store() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = plain().with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}

fn unit_costs() -> Capabilities {
    Capabilities::all()
        .without(Algorithm::SlidingWindow, Feature::Cost)
        .without(Algorithm::SlidingWindow, Feature::Reserve)
        .without_algorithm(Algorithm::SlidingCounter)
        .without_algorithm(Algorithm::FixedWindow)
        .without_algorithm(Algorithm::TokenBucket)
        .without_algorithm(Algorithm::LeakyBucket)
}

async fn unit_log() -> (UnitCosts, FakeClock) {
    let (store, clock) = log_store().await;
    (UnitCosts(store), clock)
}

/// The store as rules of unit cost ask it. That it has no reservations it says itself.
struct UnitCosts(RedisStore);

fn checked(request: Request<'_>) -> Result<Request<'_>, StoreError> {
    if request.cost() > 1 && request.algorithm() == Algorithm::SlidingWindow {
        return Err(StoreError::unsupported("costs are tried apart"));
    }
    Ok(request)
}

impl Store for UnitCosts {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        checked(request).map_or_else(|error| Answer::ready(Err(error)), |request| self.0.acquire(request))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.0.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.0.reset(request)
    }

    fn acquire_all<'a>(&'a self, requests: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        self.0.acquire_all(requests)
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.0.refund(request, ticket)
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.0.block(request, duration)
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.0.unblock(request)
    }
}

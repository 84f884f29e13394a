//! What a store does not declare: a limiter that is asked for it says so, and nothing of it is
//! dropped in silence.
//!
//! It is asked through a limiter, because that refuses what is not declared before it asks: a store
//! need not look at what it never offered.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::bench::{Bench, MINUTE, answered};
use crate::error::{RateLimitError, StoreErrorKind};
use crate::key::Key;
use crate::limiter::RateLimiter;
use crate::rule::{Algorithm, Limit, OnUnavailable, Rule};
use crate::store::{Feature, Request, StoreError};

/// What a case needs of a store.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    /// The algorithm.
    Keeps,
    /// A feature under the algorithm.
    Has(Feature),
    /// Calls of this cost.
    Costs(u64),
}

impl Need {
    pub(super) fn is_met(self, bench: &Bench, algorithm: Algorithm) -> bool {
        match self {
            Self::Keeps => bench.store.capabilities().supports_algorithm(algorithm),
            Self::Has(feature) => bench.has(algorithm, feature),
            Self::Costs(cost) => bench.takes(algorithm, cost),
        }
    }

    /// Makes sure that who needs it is told.
    pub(super) async fn assert_refused(self, bench: &Bench, algorithm: Algorithm) {
        let limiter = RateLimiter::builder().store(Arc::clone(&bench.store)).on_unavailable(OnUnavailable::Deny);
        let limiter = answered(limiter.timeout(MINUTE).build());
        let key = Key::global();
        let name = String::from_utf8_lossy(&bench.key(b"undeclared")).into_owned();
        let rule = Rule::named(name, Limit::per_minute(5)).with_algorithm(algorithm);
        match self {
            Self::Keeps => assert_misconfigured(self, &limiter.acquire(&rule, &key).await),
            Self::Has(Feature::Limits) => {
                assert_misconfigured(self, &limiter.acquire(&rule.and(Limit::per_hour(9)), &key).await);
            }
            Self::Has(Feature::Refund) => {
                let admission = answered(limiter.acquire(&rule, &key).await);
                assert_misconfigured(self, &limiter.refund(&rule, &key, &admission).await);
            }
            Self::Has(Feature::Block) => {
                assert_misconfigured(self, &limiter.block(&rule, &key, MINUTE).await);
                assert_misconfigured(self, &limiter.unblock(&rule, &key).await);
                assert_misconfigured(self, &limiter.acquire(&rule.with_block(Duration::from_secs(1)), &key).await);
            }
            Self::Has(Feature::GrowingBlock) => {
                let growing = rule.with_growing_block(Duration::from_secs(1), MINUTE);
                assert_misconfigured(self, &limiter.acquire(&growing, &key).await);
            }
            Self::Has(Feature::Reserve) => {
                let limits = [Limit::per_minute(5)];
                let request = Request::new(b"", algorithm, &limits).reserving();
                assert_unsupported(self, &bench.store.capabilities().supports(&request));
            }
            Self::Has(Feature::ActualCost) => assert_misconfigured(self, &limiter.reserve(&rule, &key).await),
            // A limiter does without, and asks for one key after the other.
            Self::Has(Feature::Together) => {
                let (one, other) = (bench.bucket("one", algorithm, 5), bench.bucket("other", algorithm, 5));
                let together = bench.store.own().decides_together(&[one.request(1), other.request(1)]);
                assert!(!together, "what the store decides in one step it has to declare");
            }
            Self::Has(Feature::Keys) => assert_misconfigured(self, &limiter.keys(&rule).next_page().await),
            Self::Has(Feature::Concurrent) => {
                assert_misconfigured(self, &limiter.enter(&rule.with_concurrent(1), &key).await);
            }
            // There is nothing to declare under the others.
            Self::Has(Feature::Calendar) if algorithm != Algorithm::FixedWindow => {}
            Self::Has(Feature::Calendar) => {
                #[cfg(feature = "calendar")]
                {
                    let limit = Limit::calendar(5, crate::rule::CalendarUnit::Day);
                    let rule = Rule::named(rule.name(), limit).with_algorithm(algorithm);
                    assert_misconfigured(self, &limiter.acquire(&rule, &key).await);
                }
            }
            Self::Costs(cost) => {
                let bucket = bench.bucket("", algorithm, cost);
                assert_unsupported(self, &bench.store.acquire(bucket.request(cost)).await);
            }
        }
    }
}

fn assert_misconfigured<T: Debug>(need: Need, answer: &Result<T, RateLimitError>) {
    let kind = match answer {
        Err(RateLimitError::Misconfigured(error)) => Some(error.kind()),
        _ => None,
    };
    assert_eq!(kind, Some(StoreErrorKind::Unsupported), "who asks for {need:?} has to be told: {answer:?}");
}

fn assert_unsupported<T: Debug>(need: Need, answer: &Result<T, StoreError>) {
    let kind = answer.as_ref().err().map(StoreError::kind);
    assert_eq!(kind, Some(StoreErrorKind::Unsupported), "who asks for {need:?} has to be told: {answer:?}");
}

/// Without the feature no limit is by the calendar.
#[cfg(not(feature = "calendar"))]
pub(super) mod calendar {
    use super::{Algorithm, Bench};

    macro_rules! not_built {
        ($($case:ident)*) => {
            $(pub(in crate::testkit::conformance) async fn $case(_: Bench, _: Algorithm) {
                crate::testkit::conformance::bench::not_tried("the feature `calendar` is off");
            })*
        };
    }

    not_built! {
        a_window_ends_with_its_unit
        a_refund_is_of_its_window
        a_clock_set_back_over_midnight_frees_nothing
        a_clock_set_back_within_a_day_frees_nothing
        random_calls_agree_with_the_calendar
    }
}

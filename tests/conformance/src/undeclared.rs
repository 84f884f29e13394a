//! What a store does not declare: a limiter that is asked for it says so, and nothing of it is
//! dropped in silence.
//!
//! It is asked through a limiter, because that refuses what is not declared before it asks: a store
//! need not look at what it never offered.

use std::fmt::Debug;
use std::time::Duration;

use ratelimit_runtime::store::{Feature, Request, StoreError, StoreErrorKind};
use ratelimit_runtime::{Algorithm, CalendarUnit, Key, Limit, RateLimitError, Rule};

use crate::bench::{Bench, MINUTE, answered, is_log};

/// What a case needs of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// The algorithm: every case does.
    Kept,
    /// The case is about sliding windows alone.
    SlidingWindow,
    /// The case is about fixed windows alone.
    FixedWindow,
    /// A feature under the algorithm.
    Has(Feature),
    /// Limits of calls in flight.
    Permits,
    /// Calls of this cost.
    Costs(u64),
}

impl Need {
    /// Whether a case that needs this is played under the algorithm.
    pub(crate) fn is_about(self, algorithm: Algorithm) -> bool {
        match self {
            Self::SlidingWindow => algorithm == Algorithm::SlidingWindow,
            Self::FixedWindow => algorithm == Algorithm::FixedWindow,
            _ => true,
        }
    }

    pub(crate) async fn is_met(self, bench: &Bench, algorithm: Algorithm) -> bool {
        match self {
            Self::Kept => bench.store.capabilities().supports_algorithm(algorithm),
            Self::SlidingWindow | Self::FixedWindow => true,
            Self::Has(feature) => bench.has(algorithm, feature),
            Self::Permits => bench.has(algorithm, Feature::Concurrent),
            Self::Costs(cost) => bench.takes(algorithm, cost).await,
        }
    }

    /// Makes sure that who needs it is told.
    pub(crate) async fn assert_refused(self, bench: &Bench, algorithm: Algorithm) {
        let limiter = bench.limiter();
        let key = Key::of(&bench.name("undeclared"));
        let rule =
            Rule::new("conformance.undeclared", Limit::per_minute(5)).with_algorithm(algorithm);
        match self {
            Self::Has(Feature::Limits) => {
                assert_misconfigured(
                    self,
                    &limiter.acquire(&rule.and(Limit::per_hour(9)), &key).await,
                );
            }
            Self::Has(Feature::Refund) => {
                let admission = answered(limiter.acquire(&rule, &key).await);
                assert_misconfigured(self, &limiter.refund(&rule, &key, &admission).await);
            }
            Self::Has(Feature::Block) => {
                assert_misconfigured(self, &limiter.block(&rule, &key, MINUTE).await);
                assert_misconfigured(self, &limiter.unblock(&rule, &key).await);
                assert_misconfigured(
                    self,
                    &limiter
                        .acquire(&rule.with_block(Duration::from_secs(1)), &key)
                        .await,
                );
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
            Self::Has(Feature::ActualCost) => {
                assert_misconfigured(self, &limiter.reserve(&rule, &key).await);
            }
            Self::Has(Feature::Keys) => {
                assert_misconfigured(self, &limiter.keys(&rule).next_page().await);
            }
            Self::Has(Feature::Concurrent) | Self::Permits => {
                assert_misconfigured(self, &limiter.enter(&rule.with_concurrent(1), &key).await);
            }
            Self::Has(Feature::Calendar) => {
                let day = Rule::new(
                    "conformance.undeclared",
                    Limit::calendar(5, CalendarUnit::Day),
                );
                assert_misconfigured(
                    self,
                    &limiter.acquire(&day.with_algorithm(algorithm), &key).await,
                );
            }
            // More than any log counts at once.
            Self::Costs(cost) if is_log(algorithm) && cost > 1_000 => {
                let rule = Rule::new("conformance.heavy", Limit::per_minute(cost))
                    .with_algorithm(algorithm);
                let answer = limiter.acquire(&rule.with_cost(cost), &key).await;
                assert!(
                    matches!(answer, Err(RateLimitError::CostExceedsLimit { .. })),
                    "{answer:?}"
                );
            }
            Self::Costs(cost) => {
                let bucket = bench.bucket("", algorithm, cost);
                assert_unsupported(self, &bench.store.acquire(bucket.request(cost)).await);
            }
            _ => assert_misconfigured(self, &limiter.acquire(&rule, &key).await),
        }
    }
}

fn assert_misconfigured<T: Debug>(need: Need, answer: &Result<T, RateLimitError>) {
    let kind = match answer {
        Err(RateLimitError::Misconfigured(error)) => Some(error.kind()),
        _ => None,
    };
    assert_eq!(
        kind,
        Some(StoreErrorKind::Unsupported),
        "who asks for {need:?} has to be told: {answer:?}"
    );
}

fn assert_unsupported<T: Debug>(need: Need, answer: &Result<T, StoreError>) {
    let kind = answer.as_ref().err().map(StoreError::kind);
    assert_eq!(
        kind,
        Some(StoreErrorKind::Unsupported),
        "who asks for {need:?} has to be told: {answer:?}"
    );
}

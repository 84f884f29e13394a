//! What goes to the log about two meanings of one name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit_runtime::{Key, Limit, RateLimiter, Rule, rate_limit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::Outcome;

/// Counts the errors that are logged.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicU64>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

mod twins {
    use super::{Outcome, RateLimiter, rate_limit};

    /// Two closures' bodies have one path: `twins::both::{{closure}}`.
    pub(super) async fn both(limiter: &RateLimiter) {
        let first = async |limiter: &RateLimiter| {
            #[rate_limit(limiter = limiter, window = "1h", max = 9)]
            async fn inner(limiter: &RateLimiter) -> Outcome {
                Ok(())
            }
            inner(limiter).await
        };
        let second = async |limiter: &RateLimiter| {
            #[rate_limit(limiter = limiter, window = "1h", max = 9)]
            async fn inner(limiter: &RateLimiter) -> Outcome {
                Ok(())
            }
            inner(limiter).await
        };
        first(limiter).await.unwrap();
        second(limiter).await.unwrap();
    }
}

#[rate_limit(limiter = limiter, window = "1h", max = 1000)]
async fn alone(limiter: &RateLimiter) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn two_functions_of_one_path_are_reported_once_per_limiter() {
    let errors = Errors::default();
    let _guard = tracing::subscriber::set_default(errors.clone());
    let (a, b) = (RateLimiter::memory(), RateLimiter::memory());
    for _ in 0..4 {
        twins::both(&a).await;
        twins::both(&b).await;
    }
    assert_eq!(errors.0.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn limiters_that_take_turns_and_rules_by_hand_are_no_error() {
    let errors = Errors::default();
    let _guard = tracing::subscriber::set_default(errors.clone());
    let limiters: Vec<RateLimiter> = (0..12).map(|_| RateLimiter::memory()).collect();
    for _ in 0..5 {
        for limiter in &limiters {
            alone(limiter).await.unwrap();
        }
    }
    // The bucket of the function, reached by hand under its derived name.
    let by_hand = Rule::named(concat!(module_path!(), "::alone").replace("::", "."), Limit::per_hour(1000));
    let seen = limiters.first().unwrap().peek(&by_hand, &Key::global()).await.unwrap();
    assert_eq!(seen.remaining(), 995);
    assert_eq!(errors.0.load(Ordering::SeqCst), 0);
}

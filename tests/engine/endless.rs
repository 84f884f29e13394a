//! Refusals that no waiting ends: by a store that frees a unit when a caller is done, and not when
//! time has passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Request, Verdict};
use ratelimit_runtime::{Key, Limit, RateLimiter, Rule, Store};
use tokio::time::Instant;

use crate::support::deny_cache::DenyCache;

/// A store whose permits are all held.
#[derive(Default)]
struct Taken {
    asked: Arc<AtomicU64>,
}

impl Taken {
    fn refuse<'a>(&self) -> Answer<'a, Verdict> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut refused = Verdict::refused();
        refused.reset_after_us = 60_000_000;
        Answer::ready(Ok(refused))
    }
}

impl Store for Taken {
    fn acquire<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        self.refuse()
    }

    fn peek<'a>(&'a self, _: Request<'a>) -> Answer<'a, Verdict> {
        self.refuse()
    }

    fn reset<'a>(&'a self, _: Request<'a>) -> Answer<'a, bool> {
        Answer::ready(Ok(false))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_retry_after_is_not_waited_for() {
    let limiter = RateLimiter::with_store(Taken::default());
    let rule = Rule::new("taken", Limit::per_minute(5)).with_wait(Duration::from_secs(3600));
    let start = Instant::now();
    let error = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(
        (error.retry_after(), error.to_string().as_str()),
        (None, "too many requests")
    );
    let decision = error.decision().unwrap();
    assert!(!decision.is_allowed() && decision.retry_after().is_none());
    assert_eq!(decision.reset_after(), Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn among_several_refusals_the_one_that_ends_last_decides() {
    let [memory, later] = [(); 2].map(|()| RateLimiter::memory());
    let taken = RateLimiter::with_store(Taken::default());
    let (minute, limit) = (Duration::from_secs(60), Limit::per_minute(1));
    let (first, second) = (Rule::new("used", limit), Rule::new("taken", limit));
    let _ = memory.acquire(&first, &Key::global()).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let _ = later.acquire(&second, &Key::global()).await.unwrap();
    for (other, wait) in [(later, Some(minute)), (taken, None)] {
        let refused = stacked(&memory, &other).await.unwrap_err();
        assert_eq!(
            (refused.decision().unwrap().rule(), refused.retry_after()),
            (second.name(), wait)
        );
    }
}

#[ratelimit_runtime::rate_limit(name = "used", limiter = memory, window = "1m", max = 1)]
#[ratelimit_runtime::rate_limit(name = "taken", limiter = taken, window = "1m", max = 1)]
async fn stacked(
    memory: &RateLimiter,
    taken: &RateLimiter,
) -> Result<(), ratelimit_runtime::RateLimitError> {
    Ok(())
}

/// A refusal that ends with another call may end at any moment.
#[tokio::test]
async fn a_refusal_without_retry_after_is_asked_for_each_time() {
    let store = Taken::default();
    let asked = Arc::clone(&store.asked);
    let cache = DenyCache::new(store);
    let limits = [Limit::per_minute(5)];
    for calls in 1..4 {
        let verdict = cache
            .acquire(Request::new(
                b"key",
                ratelimit_runtime::Algorithm::default(),
                &limits,
            ))
            .await;
        assert!(!verdict.unwrap().cached);
        assert_eq!(asked.load(Ordering::SeqCst), calls);
    }
}

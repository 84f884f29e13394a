//! Turns: of callers that wait, and of tasks that share a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{Key, Limit, MemoryStore, RateLimitError, RateLimiter, Rule, rate_limit};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::support::deny_cache::DenyCache;

/// `block_on` has returned, and a task that it spawned has the turn. The test takes real time,
/// because two runtimes have two paused clocks.
#[test]
fn a_waiter_whose_runtime_is_not_driven_passes_the_turn_on() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (left, driven) = (runtime(), runtime());
    let limiter = RateLimiter::memory();
    let rule = Arc::new(
        Rule::new("turn", Limit::new(1, Duration::from_millis(100)))
            .with_wait(Duration::from_secs(60)),
    );
    let wait = || {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        async move { limiter.acquire(&rule, &Key::global()).await.map(drop) }
    };
    let waiting: Vec<_> = left.block_on(async {
        wait().await.unwrap();
        let waiting = (0..3).map(|_| tokio::spawn(wait())).collect();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        waiting
    });
    let others = async {
        let mut others = JoinSet::new();
        for _ in 0..3 {
            others.spawn(wait());
        }
        others.join_all().await
    };
    let served =
        driven.block_on(async { tokio::time::timeout(Duration::from_secs(30), others).await });
    assert!(served.unwrap().into_iter().all(|outcome| outcome.is_ok()));
    // The waiters that were left behind are served once their runtime is driven.
    for waiting in waiting {
        left.block_on(waiting).unwrap().unwrap();
    }
}

#[rate_limit(window = "1h", max = 1)]
async fn by_attribute() -> Outcome {
    Ok(())
}

#[rate_limit(window = "1h", max = 1, wait = "1s")]
#[rate_limit(window = "2h", max = 1)]
async fn by_two_attributes() -> Outcome {
    Ok(())
}

/// Asks until another task of the same thread has run.
async fn ask_until_another_task_runs(what: &str, ask: impl AsyncFn() -> Outcome) {
    let ran = Arc::new(AtomicBool::new(false));
    let other = tokio::spawn({
        let ran = Arc::clone(&ran);
        async move { ran.store(true, Ordering::Relaxed) }
    });
    let mut refusals = 0;
    while !ran.load(Ordering::Relaxed) {
        assert!(
            refusals < 10_000,
            "{what} kept the thread from another task"
        );
        assert!(
            matches!(ask().await, Err(RateLimitError::Exceeded(_))),
            "{what}"
        );
        refusals += 1;
    }
    other.await.unwrap();
}

#[tokio::test]
async fn a_caller_that_is_refused_at_once_again_and_again_leaves_its_thread_to_others() {
    let away = FaultyStore::new(MemoryStore::new());
    for (name, limiter) in [
        ("memory", RateLimiter::memory()),
        (
            "a deny cache",
            RateLimiter::with_store(DenyCache::new(FaultyStore::new(MemoryStore::new()))),
        ),
        ("the fallback", RateLimiter::with_store(away.clone())),
    ] {
        let rule = Rule::new("again", Limit::per_hour(1));
        let by_hand = async || limiter.acquire(&rule, &Key::global()).await.map(drop);
        if name == "the fallback" {
            away.fail();
        }
        let work = async {
            by_hand().await.unwrap();
            ask_until_another_task_runs(&format!("{name} by hand"), by_hand).await;
            by_attribute().await.unwrap();
            ask_until_another_task_runs(&format!("{name} by attribute"), by_attribute).await;
            by_two_attributes().await.unwrap();
            ask_until_another_task_runs(&format!("{name} by two attributes"), by_two_attributes)
                .await;
        };
        limiter.scope(work).await;
    }
}

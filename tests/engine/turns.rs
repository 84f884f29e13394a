//! Whose turn it is: of callers that wait, of tasks that share a thread, and of charges that are
//! made one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratelimit_runtime::__private::DenyCache;
use ratelimit_runtime::store::{Answer, Capabilities, Request, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{Key, Limit, MemoryStore, RateLimitError, RateLimiter, Rule, Store, rate_limit};
use tokio::task::JoinSet;

use crate::Outcome;

/// `block_on` has returned, and a task that it spawned has the turn. The test takes real time,
/// because two runtimes have two paused clocks.
#[test]
fn a_waiter_whose_runtime_is_not_driven_passes_the_turn_on() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (left, driven) = (runtime(), runtime());
    let limiter = RateLimiter::memory();
    let rule =
        Arc::new(Rule::new("turn", Limit::new(1, Duration::from_millis(100))).with_wait(Duration::from_secs(60)));
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
    let served = driven.block_on(async { tokio::time::timeout(Duration::from_secs(30), others).await });
    assert!(served.unwrap().into_iter().all(|outcome| outcome.is_ok()));
    // Those who were left behind come again once they are driven.
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
        assert!(refusals < 10_000, "{what} kept the thread from another task");
        assert!(matches!(ask().await, Err(RateLimitError::Exceeded(_))), "{what}");
        refusals += 1;
    }
    other.await.unwrap();
}

#[tokio::test]
async fn a_caller_that_is_refused_at_once_again_and_again_leaves_its_thread_to_others() {
    let away = FaultyStore::new(MemoryStore::new());
    for (name, limiter) in [
        ("memory", RateLimiter::memory()),
        ("a deny cache", RateLimiter::with_store(DenyCache::new(FaultyStore::new(MemoryStore::new())))),
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
            ask_until_another_task_runs(&format!("{name} by two attributes"), by_two_attributes).await;
        };
        limiter.scope(work).await;
    }
}

/// One server for each key: it decides no two together, and other tasks run while it is asked.
struct Nodes(MemoryStore);

impl Store for Nodes {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move {
            tokio::task::yield_now().await;
            self.0.acquire(request).await
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.0.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.0.reset(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.0.refund(request, ticket)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

#[rate_limit(window = "1h", max = 100, name = "first")]
#[rate_limit(window = "1h", max = 100, name = "second")]
async fn one_way() -> Outcome {
    Ok(())
}

#[rate_limit(window = "1h", max = 100, name = "second")]
#[rate_limit(window = "1h", max = 100, name = "first")]
async fn the_other_way() -> Outcome {
    Ok(())
}

#[tokio::test]
async fn limits_on_two_nodes_that_are_stacked_in_opposite_order_admit_all_they_can() {
    let limiter = RateLimiter::with_store(Nodes(MemoryStore::new()));
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let here = limiter.clone();
        calls.spawn(async move { here.scope(one_way()).await.is_ok() });
        let here = limiter.clone();
        calls.spawn(async move { here.scope(the_other_way()).await.is_ok() });
    }
    let admitted = calls.join_all().await.into_iter().filter(|admitted| *admitted).count();
    assert_eq!(admitted, 100);
}

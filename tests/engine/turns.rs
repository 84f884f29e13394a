//! Turns: of callers that wait, and of tasks that share a thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
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

/// Threads that have entered a runtime, and none drives that: no task of it runs.
#[test]
fn callers_that_are_refused_at_once_beside_a_runtime_that_nobody_drives_are_answered() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (answered, answers) = mpsc::channel();
    for is_of_runtime in [false, true] {
        let (answered, handle) = (answered.clone(), runtime.handle().clone());
        let work = move || {
            let (limiter, key) = (RateLimiter::memory(), Key::global());
            let rule = Rule::new("beside", Limit::per_hour(1));
            let ask = || async { limiter.acquire(&rule, &key).await.map(drop) };
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(100) {
                handle.block_on(join_all((0..100).map(|_| ask())));
            }
            answered.send(()).unwrap();
        };
        if is_of_runtime {
            runtime.spawn_blocking(work);
        } else {
            thread::spawn(work);
        }
    }
    let answered = [(); 2].map(|()| answers.recv_timeout(Duration::from_secs(60)));
    // It would wait for callers that are never answered.
    runtime.shutdown_background();
    assert_eq!(answered, [Ok(()); 2], "a caller waits for a task of it");
}

/// Together they may keep the thread for a few slices, and not each for one of its own.
#[tokio::test]
async fn callers_in_one_future_that_are_refused_at_once_leave_their_thread_to_others() {
    let (limiter, key) = (RateLimiter::memory(), Key::global());
    let rule = Rule::new("together", Limit::per_hour(1));
    limiter.acquire(&rule, &key).await.unwrap();
    let (ran, refusals) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let other = tokio::spawn({
        let ran = Arc::clone(&ran);
        async move { ran.store(true, Ordering::Relaxed) }
    });
    join_all((0..10_000).map(|_| async {
        while !ran.load(Ordering::Relaxed) {
            let _ = limiter.acquire(&rule, &key).await;
            refusals.fetch_add(1, Ordering::Relaxed);
        }
    }))
    .await;
    other.await.unwrap();
    let refusals = refusals.into_inner();
    assert!(refusals < 1_500_000, "{refusals} before another task ran");
}

//! A check has one timeout, whatever it consists of.

use std::future::ready;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt as _;
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Key, Limit, MemoryStore, OnUnavailable, RateLimiter, Rule, Source, observe, rate_limit,
};
use tokio::time::Instant;

use crate::waiting::futures_lite_free::block_on_without_a_runtime;
use crate::{Flooded, Outcome};

const TIMEOUT: Duration = Duration::from_millis(100);
/// The resolution of timers.
const SLACK: Duration = Duration::from_millis(2);

fn silent() -> RateLimiter {
    let store = FaultyStore::new(MemoryStore::new());
    store.hang();
    RateLimiter::builder()
        .store(store)
        .timeout(TIMEOUT)
        .on_unavailable(OnUnavailable::Allow)
        .build()
        .unwrap()
}

fn flooded() -> RateLimiter {
    RateLimiter::builder()
        .store(Flooded)
        .timeout(TIMEOUT)
        .build()
        .unwrap()
}

#[rate_limit(limiter = a, window = "1h", max = 9, name = "a")]
#[rate_limit(limiter = b, window = "1h", max = 9, name = "b")]
#[rate_limit(limiter = c, window = "1h", max = 9, name = "c")]
async fn on_three_servers(a: &RateLimiter, b: &RateLimiter, c: &RateLimiter) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn stacked_limits_on_three_silent_servers_take_one_timeout() {
    for limiter in [silent, flooded] {
        let (a, b, c) = (limiter(), limiter(), limiter());
        let start = Instant::now();
        on_three_servers(&a, &b, &c).await.unwrap();
        let took = start.elapsed();
        assert!(took >= TIMEOUT && took < TIMEOUT + SLACK, "{took:?}");
    }
}

#[rate_limit(limiter = a, window = "1h", max = 9, name = "a")]
#[rate_limit(limiter = b, window = "1h", max = 9, name = "b", shadow)]
async fn with_a_shadow(a: &RateLimiter, b: &RateLimiter) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shadow_rule_adds_no_timeout_to_that_of_its_call() {
    let (a, b) = (silent(), silent());
    let start = Instant::now();
    with_a_shadow(&a, &b).await.unwrap();
    assert!(start.elapsed() < TIMEOUT + SLACK, "{:?}", start.elapsed());
}

#[rate_limit(limiter = a, window = "1h", max = 9, name = "a")]
#[rate_limit(limiter = b, window = "1h", max = 9, name = "b", shadow)]
#[rate_limit(limiter = b, concurrent = 9, name = "c", shadow)]
#[rate_limit(
    limiter = b,
    window = "1h",
    max = 9,
    concurrent = 9,
    name = "d",
    shadow
)]
async fn with_shadows(a: &RateLimiter, b: &RateLimiter) -> Outcome {
    Ok(())
}

/// What a shadow rule would say is told by this process then.
#[tokio::test(start_paused = true)]
async fn a_shadow_rule_asks_its_store_nothing_once_the_timeout_is_over() {
    let store = FaultyStore::new(MemoryStore::new());
    let b = RateLimiter::with_store(store.clone());
    let (outcome, observed) = observe::collect(with_shadows(&silent(), &b)).await;
    outcome.unwrap();
    assert_eq!(store.calls(), 0);
    let observed = observed.iter().map(|observed| {
        let decision = observed.decision();
        (decision.rule(), decision.source())
    });
    let mut observed: Vec<_> = observed.collect();
    observed.sort_unstable_by_key(|(rule, _)| *rule);
    assert_eq!(
        observed,
        [
            ("a", Source::Nobody),
            ("b", Source::Fallback),
            ("c", Source::Fallback),
            ("d", Source::Fallback)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_peek_at_limits_and_permits_takes_one_timeout() {
    let rule = Rule::new("looked_at", Limit::per_hour(9)).with_concurrent(2);
    for on_unavailable in [OnUnavailable::Local, OnUnavailable::Allow] {
        let rule = rule.clone().with_on_unavailable(on_unavailable);
        let start = Instant::now();
        let decision = silent().peek(&rule, &Key::global()).await.unwrap();
        let took = start.elapsed();
        assert!(decision.is_degraded());
        assert!(took >= TIMEOUT && took < TIMEOUT + SLACK, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_by_its_time_and_one_timeout() {
    let limiter = flooded();
    let rule = Rule::new("wait", Limit::per_hour(1)).with_wait(Duration::from_millis(50));
    // The memory of this process has one unit, and then refuses for an hour: no call waits it out.
    for _ in 0..2 {
        let start = Instant::now();
        let _ = limiter.acquire(&rule, &Key::global()).await;
        assert!(start.elapsed() < TIMEOUT + SLACK, "{:?}", start.elapsed());
    }
}

/// A caller that finds others waiting looks at its other limits first.
#[tokio::test(start_paused = true)]
async fn a_wait_that_begins_with_a_look_ends_by_its_time_and_one_timeout() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder().store(store.clone());
    let limiter = limiter.timeout(TIMEOUT).build().unwrap();
    let waiting = |wait| Rule::new("queue", Limit::per_minute(1)).with_wait(wait);
    let (long, wait) = (waiting(Duration::from_secs(60)), TIMEOUT / 2);
    let (short, beside) = (waiting(wait), Rule::new("beside", Limit::per_hour(9)));
    let key = Key::global();
    let _ = limiter.acquire(&long, &key).await.unwrap();
    let first = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(&long, &Key::global()).await }
    });
    tokio::task::yield_now().await;
    store.hang();
    let start = Instant::now();
    let _ = limiter.acquire_all([(&short, &key), (&beside, &key)]).await;
    let took = start.elapsed();
    assert!(took < wait + TIMEOUT + SLACK, "{took:?}");
    first.abort();
}

#[tokio::test]
async fn the_longest_timeout_and_wait_there_are_overflow_nothing() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("longest", Limit::per_hour(1))
        .with_timeout(Duration::MAX)
        .with_wait(Duration::MAX);
    assert!(
        limiter
            .acquire(&rule, &Key::global())
            .await
            .unwrap()
            .is_allowed()
    );
    assert!(
        !limiter
            .peek(&rule, &Key::global())
            .await
            .unwrap()
            .is_allowed()
    );
    assert!(limiter.settled_within(Duration::MAX).await.is_ok());
    store.fail();
    assert!(
        limiter
            .acquire(&rule, &Key::global())
            .await
            .unwrap()
            .is_degraded()
    );
}

/// Refusals in memory need no runtime, not even where many have kept the thread, and other tasks
/// would run first.
#[test]
fn a_refusal_in_memory_ends_where_its_caller_blocks_the_runtime() {
    let runtimes = [
        tokio::runtime::Builder::new_current_thread(),
        tokio::runtime::Builder::new_multi_thread(),
    ];
    for mut runtime in runtimes {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = runtime.enable_all().build().unwrap();
            let task = async {
                let limiter = RateLimiter::memory();
                let rule = Rule::new("refused", Limit::per_hour(1));
                let key = Key::global();
                let checks = || limiter.acquire(&rule, &key).map(drop);
                for _ in 0..100 {
                    // What a callback that is not async does, ...
                    block_on_without_a_runtime(checks());
                    // ... where others wait in line, ...
                    let others = [checks().boxed(), ready(()).boxed()];
                    block_on_without_a_runtime(futures_util::future::select_all(others));
                    // ... or once, without waiting.
                    assert_eq!(checks().now_or_never(), Some(()));
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            tell.send(runtime.block_on(runtime.spawn(task))).unwrap();
        });
        told.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
    }
}

/// A future that one runtime has polled may be awaited on another, which drives no timer of the
/// first.
#[test]
fn a_check_that_is_moved_to_another_runtime_keeps_its_timeout() {
    let runtime = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap()
    };
    let plain = Rule::new("plain", Limit::per_hour(1));
    let waits = Rule::new("waits", Limit::new(1, TIMEOUT)).with_wait(2 * TIMEOUT);
    let (full, key) = (RateLimiter::memory(), Key::global());
    for (limiter, rule) in [(silent(), &plain), (silent(), &waits), (full, &waits)] {
        for stays in [true, false] {
            let (first, second) = (runtime(), runtime());
            let mut check = limiter.acquire(rule, &key).boxed();
            first.block_on(async {
                let _ = limiter.acquire(rule, &key).now_or_never();
                assert!((&mut check).now_or_never().is_none());
            });
            let _first = stays.then_some(first);
            let ended = async { tokio::time::timeout(50 * TIMEOUT, check).await };
            assert!(second.block_on(ended).is_ok(), "{} {stays}", rule.name());
        }
    }
}

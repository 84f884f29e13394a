//! The fixed window as a counter that expires.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind, Verdict};
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisMode, Store};

use super::{SERVER, ask, plain, unique};
use crate::support::clock::ServerClock;
use crate::support::redis::{RedisServer, patient};

const FIXED: Algorithm = Algorithm::FixedWindow;

fn number(command: &[&str]) -> i64 {
    SERVER.cli(command).parse().unwrap()
}

/// `(cost, max)` of each call.
fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let max =
        prop_oneof![6 => 1_u64..12, 1 => Just(Limit::MAX_COUNT), 1 => Just(Limit::MAX_COUNT - 3)];
    let cost = prop_oneof![6 => 0_u64..5, 1 => Just(Limit::MAX_COUNT / 3)];
    prop::collection::vec((cost, max), 1..40)
}

/// What does not depend on the time of the call.
fn shape(verdict: Verdict) -> (bool, u64, bool) {
    (
        verdict.allowed,
        verdict.remaining,
        verdict.reset_after_us > 0,
    )
}

/// Within one window, every answer is that of the memory store, whatever `max` a call brings.
#[test]
fn random_calls_of_any_cost_and_max_agree_with_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let redis = plain();
    runtime.block_on(redis.ready()).unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 150,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&steps(), |steps| {
        let (memory, key) = (MemoryStore::new(), unique("random"));
        runtime.block_on(async {
            for (cost, max) in &steps {
                let limits = [Limit::per_day(*max)];
                let request =
                    Request::new(key.as_bytes(), FIXED, &limits).with_cost((*cost).min(*max));
                let peeks = (
                    memory.peek(request).await.unwrap(),
                    redis.peek(request).await.unwrap(),
                );
                assert_eq!(shape(peeks.0), shape(peeks.1), "{steps:?}");
                let calls = (
                    memory.acquire(request).await.unwrap(),
                    redis.acquire(request).await.unwrap(),
                );
                assert_eq!(shape(calls.0), shape(calls.1), "{steps:?}");
                assert_eq!(calls.1.retry_after_us == 0, calls.1.allowed);
            }
        });
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// By a clock that the machine does not set meanwhile.
#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "sets the clock of a server by LD_PRELOAD"
)]
async fn a_refusal_ends_when_it_says_and_not_before() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    let store = patient(&server.url())
        .mode(RedisMode::Transactions)
        .deny_cache(false);
    let limit = Limit::new(2, Duration::from_millis(500));
    for _ in 0..3 {
        let key = unique("ends");
        let admitted = ask(&store, &key, FIXED, limit).await;
        assert!(
            admitted.allowed && admitted.reset_after_us <= 501_000,
            "{admitted:?}"
        );
        assert!(ask(&store, &key, FIXED, limit).await.allowed);
        let asked_at = Instant::now();
        let refused = ask(&store, &key, FIXED, limit).await;
        let mut last = (asked_at, refused.retry_after_us);
        assert!(
            !refused.allowed && refused.retry_after_us > 0 && refused.remaining == 0,
            "{refused:?}"
        );
        // A caller who asks again in the meantime changes nothing.
        loop {
            let asked_at = Instant::now();
            let again = ask(&store, &key, FIXED, limit).await;
            let (told_at, rest) = last;
            if again.allowed {
                // The server counts in milliseconds, and rounds.
                let passed = told_at.elapsed() + Duration::from_millis(2);
                assert!(
                    passed >= Duration::from_micros(rest),
                    "the window was to last {rest} µs, and not {passed:?}"
                );
                break;
            }
            assert!(again.retry_after_us <= rest, "{again:?} after {rest}");
            last = (asked_at, again.retry_after_us);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let refused = [
            ask(&store, &key, FIXED, limit).await,
            ask(&store, &key, FIXED, limit).await,
        ][1];
        assert!(!refused.allowed, "{refused:?}");
        tokio::time::sleep(refused.retry_after().unwrap()).await;
        assert!(ask(&store, &key, FIXED, limit).await.allowed, "{refused:?}");
    }
}

/// A server whose clock steps back keeps a key until it has caught up.
#[tokio::test]
async fn a_clock_that_steps_back_shortens_no_window() {
    let (store, key) = (plain(), unique("back"));
    let (limit, stored) = (Limit::per_minute(1), format!("{key}%plain"));
    assert!(ask(&store, &key, FIXED, limit).await.allowed);
    assert_eq!(number(&["PEXPIRE", &stored, "3600000"]), 1);
    let refused = ask(&store, &key, FIXED, limit).await;
    assert!(
        !refused.allowed && (3_500_000_000..=3_600_001_000).contains(&refused.retry_after_us),
        "{refused:?}"
    );
    for _ in 0..20 {
        let told = ask(&store, &key, FIXED, limit).await.retry_after_us;
        let left = number(&["PTTL", &stored]).unsigned_abs() * 1_000;
        assert!(
            told > left,
            "a key lives until its last millisecond is over"
        );
    }
    // Whoever removes the expiry makes no window endless.
    assert_eq!(number(&["PERSIST", &stored]), 1);
    assert!(!ask(&store, &key, FIXED, limit).await.allowed);
    assert!(number(&["PTTL", &stored]) > 0);
}

/// A charge does not tell which window it belongs to, so it could be given back to the next one.
#[tokio::test]
async fn nothing_is_given_back_and_a_rule_is_decided_alone() {
    let (store, key) = (plain(), unique("alone"));
    let limits = [Limit::per_minute(5)];
    let request = Request::new(key.as_bytes(), FIXED, &limits);
    let charged = store.acquire(request).await.unwrap();
    let refund = store.refund(request, charged.ticket).await.unwrap_err();
    let other = Request::new(b"other", Algorithm::SlidingWindow, &limits);
    assert!(!store.decides_together(None, &[request, other]));
    assert_eq!(refund.kind(), StoreErrorKind::Unsupported, "{refund}");
    let message = refund.message();
    assert!(message.contains("choose RedisMode::Scripts"), "{message}");
    assert_eq!(store.peek(request).await.unwrap().remaining, 4);
}

#[tokio::test]
async fn a_text_of_another_program_is_an_error_and_stays_as_it_is() {
    let (store, key) = (plain(), unique("foreign"));
    let (at, text) = (format!("{key}%plain"), "a text of another program");
    assert_eq!(SERVER.cli(&["SET", &at, text]), "OK");
    let limits = [Limit::per_day(3)];
    let request = Request::new(key.as_bytes(), FIXED, &limits);
    let error = store.acquire(request).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert_eq!(number(&["PTTL", &at]), -1);
    assert_eq!(SERVER.cli(&["GET", &at]), text);
}

/// Its connections leave `MULTI` nevertheless: each call gets the error that names the
/// cause.
#[tokio::test]
async fn a_server_without_exec_is_misconfigured_at_each_call() {
    let server = RedisServer::start_with(&["--rename-command", "EXEC", ""]);
    let store = patient(&server.url()).mode(RedisMode::Transactions);
    store.ready().await.unwrap();
    for algorithm in [Algorithm::SlidingWindow, FIXED] {
        for call in 0..3 {
            let limits = [Limit::per_day(3)];
            let error = store
                .acquire(Request::new(b"key", algorithm, &limits))
                .await
                .unwrap_err();
            assert!(
                error.message().contains("lacks a command"),
                "{algorithm}, call {call}: {error}"
            );
        }
    }
}

//! A client that mints keys fills no memory: a million distinct keys cost a bounded part of it. A
//! binary of its own, one test at a time: it measures the process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]

#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_runtime::store::Request;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, Source,
    Store,
};
use tokio::task::JoinSet;

use crate::support::redis::RedisServer;

/// Taken by each test.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// By how many megabytes a process may seem to grow that keeps nothing more.
const SLACK_MB: u64 = 24;

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Calls with ever new keys. By how many megabytes the process grew after the first `warm` of them.
async fn growth(calls: u64, warm: u64, call: impl AsyncFn(u64)) -> u64 {
    let mut before = 0;
    for number in 0..calls {
        if number == warm {
            before = resident_mb();
        }
        call(number).await;
    }
    resident_mb().saturating_sub(before)
}

#[tokio::test]
async fn a_million_keys_take_bounded_memory() {
    let _alone = ALONE.lock().await;
    let store = MemoryStore::new();
    let limits = [Limit::per_hour(3)];
    let started = Instant::now();
    let grown = growth(1_000_000, 200_000, async |number| {
        let key = number.to_be_bytes();
        let _ = store
            .acquire(Request::new(&key, Algorithm::SlidingWindow, &limits))
            .await
            .unwrap();
    })
    .await;
    println!(
        "a million keys in memory: {} kept, {grown} MB more, {:?}",
        store.len(),
        started.elapsed()
    );
    assert!(store.len() <= 102_000, "{}", store.len());
    assert!(grown <= SLACK_MB, "{grown} MB");
    // The flood makes room for others.
    let verdict = store
        .acquire(Request::new(b"newcomer", Algorithm::SlidingWindow, &limits))
        .await
        .unwrap();
    assert_eq!((verdict.allowed, verdict.remaining), (true, 2));
}

#[tokio::test]
async fn a_flood_of_keys_in_an_outage_takes_bounded_memory() {
    let _alone = ALONE.lock().await;
    let limiter = RateLimiter::builder()
        .redis("redis://127.0.0.1:1")
        .build()
        .unwrap();
    let rule = Rule::new("away", Limit::per_hour(1));
    let grown = growth(180_000, 120_000, async |number| {
        match limiter.acquire(&rule, &Key::of(&number)).await {
            Ok(decision) => assert_eq!(decision.source(), Source::Fallback),
            Err(error) => assert!(matches!(error, RateLimitError::Exceeded(_)), "{error}"),
        }
    })
    .await;
    println!("a flood while Redis is away: {grown} MB more");
    assert!(grown <= SLACK_MB, "{grown} MB");
}

/// Callers that wait for a stalled server: none waits longer than its timeout, so they are as many
/// as come in that time.
#[tokio::test]
async fn a_flood_of_callers_of_a_stalled_redis_takes_bounded_memory() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let limiter = RateLimiter::builder()
        .redis(&server.url())
        .on_unavailable(OnUnavailable::Deny)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let rule = Arc::new(Rule::new("stall", Limit::per_hour(1)));
    let wave = async |wave: u64| {
        let mut calls = JoinSet::new();
        for number in 0..10_000 {
            let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
            calls.spawn(async move {
                limiter
                    .acquire(&rule, &Key::of(&(wave, number)))
                    .await
                    .is_ok()
            });
        }
        calls.join_all().await
    };
    server.freeze();
    for number in 0..3 {
        wave(number).await;
    }
    let before = resident_mb();
    for number in 3..10 {
        assert!(wave(number).await.into_iter().all(|admitted| !admitted));
    }
    let grown = resident_mb().saturating_sub(before);
    server.thaw();
    println!("a flood while Redis stalls: {grown} MB more");
    assert!(grown <= SLACK_MB, "{grown} MB");
}

/// Where one more name is not kept, its call looks through none of those that are.
#[tokio::test]
async fn a_call_of_one_more_name_takes_no_longer_than_the_first_ones_took() {
    let _alone = ALONE.lock().await;
    let limiter = RateLimiter::memory();
    let mut names = 0..;
    let mut fastest = async |calls: usize| {
        let mut fastest = Duration::MAX;
        for name in names.by_ref().take(calls) {
            let rule = Rule::named(format!("one more {name}"), Limit::per_hour(1));
            let start = Instant::now();
            assert!(limiter.acquire(&rule, &Key::global()).await.is_ok());
            fastest = start.elapsed().min(fastest);
        }
        fastest
    };
    let first = fastest(100).await;
    let _ = fastest(20_000).await;
    let more = fastest(100).await;
    println!("a call of a new name: {first:?}, of one more: {more:?}");
    assert!(more < 8 * first, "{first:?}, {more:?}");
}

/// Names made at run time are remembered up to a number; the metric's label of those beyond is one.
#[tokio::test]
async fn names_made_at_run_time_do_not_fill_the_memory() {
    let _alone = ALONE.lock().await;
    let limiter = RateLimiter::with_store(MemoryStore::with_capacity(1_000));
    let grown = growth(60_000, 20_000, async |number| {
        let rule = Rule::named(format!("name {number:0>80}"), Limit::per_hour(1));
        let _ = limiter.acquire(&rule, &Key::global()).await;
    })
    .await;
    println!("names made at run time: {grown} MB more");
    assert!(grown <= SLACK_MB, "{grown} MB");
    let grown = growth(2_000, 1_000, async |number| {
        let rule = Rule::named(
            format!("{number} {}", "n".repeat(65_536)),
            Limit::per_hour(1),
        );
        let refused = limiter.acquire(&rule, &Key::global()).await;
        assert!(matches!(refused, Err(RateLimitError::Misconfigured(_))));
    })
    .await;
    println!("long names: {grown} MB more");
    assert!(grown <= SLACK_MB, "{grown} MB");
}

//! A flood does not make its own outage. A binary of its own, one test at a time: what is measured
//! here is the machine, too.

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

mod late;
mod refused;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::Health;
use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, RedisStore, Rule, Source};

use crate::support::asking::{
    Outcome, ask, connected, connections_since, connections_taken, health,
};
use crate::support::redis::RedisServer;
use crate::support::until;
use tokio::task::JoinSet;

/// Taken by each test.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Where other programs take the processors away, even the server may be too slow: rates get this
/// many tries.
const TRIES: u32 = 3;

#[derive(Debug, Default)]
struct Count {
    answered: AtomicU64,
    unchecked: AtomicU64,
    others: AtomicU64,
}

impl Count {
    fn add(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Answered(_) => &self.answered,
            outcome if outcome.is_unchecked() => &self.unchecked,
            _ => &self.others,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64, u64) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (get(&self.answered), get(&self.unchecked), get(&self.others))
    }
}

/// On one thread the callers keep the connection from its turn: those that are late are judged
/// elsewhere, and none is let through unchecked. Of fewer, unoptimised as many as an optimised
/// build answers of 10,000, some are answered in time.
#[tokio::test]
async fn calls_at_once_on_one_thread_are_all_checked() {
    at_once(30_000).await;
    let answered = at_once(3_000).await;
    assert!(answered >= 500, "{answered}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_thousand_calls_at_once_on_two_threads_are_answered() {
    let answered = at_once(30_000).await;
    assert!(answered >= 500, "{answered}");
}

/// How many of so many calls on one key Redis answered.
async fn at_once(calls: u32) -> u64 {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let store = Arc::new(connected(&server.url()).await);
    assert!(
        ask(&store, "one key", Limit::per_hour(5))
            .await
            .is_answered()
    );
    let taken = connections_taken(&server);
    let count = Arc::new(Count::default());
    let calls = (0..calls).map(|_| {
        let (store, count) = (Arc::clone(&store), Arc::clone(&count));
        tokio::spawn(async move { count.add(&ask(&store, "one key", Limit::per_hour(5)).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let (answered, unchecked, others) = count.get();
    assert_eq!(unchecked, 0);
    assert_eq!(health(&store), Health::Up);
    assert_eq!(
        connections_since(&server, taken),
        0,
        "the connection was kept"
    );
    println!("answered {answered}, judged elsewhere {others}");
    answered
}

/// So many callers, each of whom asks again as soon as it is answered: answers a second, and what
/// else came.
async fn closed_loop(store: &Arc<RedisStore>, callers: usize, time: Duration) -> (f64, u64, u64) {
    let count = Arc::new(Count::default());
    let end = Instant::now() + time;
    let calls = (0..callers).map(|_| {
        let (store, count) = (Arc::clone(store), Arc::clone(&count));
        tokio::spawn(async move {
            while Instant::now() < end {
                let outcome = ask(&store, "one key", Limit::per_hour(5)).await;
                count.add(&outcome);
                if !outcome.is_answered() {
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let (answered, unchecked, others) = count.get();
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    (answered as f64 / time.as_secs_f64(), unchecked, others)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_times_the_load_is_answered_as_fast_as_the_load() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let store = Arc::new(connected(&server.url()).await);
    assert!(
        ask(&store, "one key", Limit::per_hour(5))
            .await
            .is_answered()
    );
    let taken = connections_taken(&server);
    closed_loop(&store, 1_000, Duration::from_secs(1)).await;
    let mut kept_up = false;
    for _ in 0..TRIES {
        let (capacity, before, _) = closed_loop(&store, 1_000, Duration::from_secs(2)).await;
        let (goodput, unchecked, others) =
            closed_loop(&store, 10_000, Duration::from_secs(4)).await;
        println!(
            "1,000 callers {capacity:.0}/s, 10,000 callers {goodput:.0}/s, judged elsewhere \
             {others}"
        );
        kept_up = before + unchecked == 0 && goodput > 0.5 * capacity;
        if kept_up {
            break;
        }
    }
    assert!(
        kept_up,
        "ten times the load is answered half as fast as the load, or let through unchecked"
    );
    assert_eq!(health(&store), Health::Up);
    assert_eq!(
        connections_since(&server, taken),
        0,
        "the connection was kept"
    );
}

/// What a flood is let through under `allow`: what the store and this process admit, and nothing
/// unchecked.
#[tokio::test]
async fn a_flood_is_not_let_through_unchecked() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let limiter = RateLimiter::builder()
        .redis(&server.url())
        .on_unavailable(OnUnavailable::Allow)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::new("guess", Limit::per_hour(5));
    assert!(limiter.acquire(&rule, &Key::global()).await.is_ok());
    let calls = (0..30_000).map(|_| {
        let (limiter, rule) = (limiter.clone(), rule.clone());
        tokio::spawn(async move { limiter.acquire(&rule, &Key::global()).await })
    });
    let (mut admitted, mut unchecked) = (0, 0);
    for call in calls.collect::<Vec<_>>() {
        if let Ok(decision) = call.await.unwrap() {
            admitted += 1;
            unchecked += u32::from(decision.source() == Source::Nobody);
        }
    }
    println!("admitted {admitted}, of them unchecked {unchecked}");
    assert_eq!(unchecked, 0);
    assert!(
        admitted <= 4 + 5,
        "{admitted}: the store's, and this process's"
    );
}

/// What is with the server when callers give up is decided for nobody, before the calls of others.
#[tokio::test]
async fn of_callers_that_give_up_few_reach_the_server() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start();
    let store = Arc::new(connected(&server.url()).await);
    server.freeze();
    let mut calls = JoinSet::new();
    for key in 0..3_000 {
        let store = Arc::clone(&store);
        calls.spawn(async move { ask(&store, &key.to_string(), Limit::per_hour(1)).await });
    }
    calls.join_all().await;
    server.thaw();
    until("answered", Duration::from_secs(20), async || {
        ask(&store, "last", Limit::per_hour(1)).await.is_answered()
    })
    .await;
    let charged = server.number(&["DBSIZE"]);
    assert!(charged <= 600, "{charged} of 3,000");
}

//! Callers who give up at any moment: 10,000 dropped futures leave nothing locked, and are counted
//! at most once each.

#![allow(clippy::print_stdout, reason = "figures for the reader of the log")]

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{
    Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, Store,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::polled;
use crate::support::random::{Random, seed};
use crate::support::redis::RedisServer;

const TASKS: u64 = 64;
const CALLS: u64 = 200;
const KEYS: u64 = 8;
/// How long the call after all this may take.
const SOON: Duration = Duration::from_secs(5);

/// The outcomes of the calls on one key.
#[derive(Debug, Default, Clone, Copy)]
struct Fate {
    admitted: u64,
    refused: u64,
    dropped: u64,
}

async fn caller(limiter: RateLimiter, rule: Rule, mut random: Random) -> Vec<Fate> {
    let mut fates = vec![Fate::default(); usize::try_from(KEYS).unwrap()];
    for _ in 0..CALLS {
        let key = random.below(KEYS);
        let fate = fates.get_mut(usize::try_from(key).unwrap()).unwrap();
        let key = Key::of(&key);
        let call = limiter.acquire(&rule, &key);
        let outcome = match random.below(4) {
            // Never polled at all.
            0 if random.below(8) == 0 => {
                drop(call);
                fate.dropped += 1;
                continue;
            }
            0 => Some(call.await),
            1 => timeout(Duration::from_micros(random.below(3_000)), call)
                .await
                .ok(),
            _ => polled(call, random.below(4)).await,
        };
        match outcome {
            None => fate.dropped += 1,
            Some(Ok(decision)) => {
                assert!(!decision.is_degraded(), "{decision:?}");
                fate.admitted += 1;
            }
            Some(Err(RateLimitError::Exceeded(_))) => fate.refused += 1,
            Some(Err(error)) => unreachable!("{error}"),
        }
        if random.below(16) == 0 {
            tokio::task::yield_now().await;
        }
    }
    fates
}

/// Says how many gave up.
async fn give_up_at_random(store: impl Store, what: &str, max: u64, seed: u64) -> u64 {
    let limiter = RateLimiter::builder()
        .store(store)
        .timeout(Duration::from_secs(30))
        .on_unavailable(OnUnavailable::Deny)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let rule = || Rule::named(what, Limit::per_hour(max));
    let mut random = Random::new(seed);
    let mut callers = JoinSet::new();
    for _ in 0..TASKS {
        callers.spawn(caller(limiter.clone(), rule(), random.fork()));
    }
    let mut fates = vec![Fate::default(); usize::try_from(KEYS).unwrap()];
    while let Some(seen) = timeout(SOON * 4, callers.join_next())
        .await
        .expect("no caller hangs")
    {
        for (fate, seen) in fates.iter_mut().zip(seen.unwrap()) {
            fate.admitted += seen.admitted;
            fate.refused += seen.refused;
            fate.dropped += seen.dropped;
        }
    }
    for (key, fate) in (0..KEYS).zip(&fates) {
        let (start, key) = (Instant::now(), Key::of(&key));
        // What is still on its way is decided before a later question.
        let peeked = timeout(SOON, limiter.peek(&rule(), &key))
            .await
            .expect("the next call is answered");
        let charged = max - peeked.unwrap().remaining();
        assert!(
            (fate.admitted..=fate.admitted + fate.dropped).contains(&charged),
            "{what}: {charged} of {fate:?}"
        );
        assert!(
            charged == max || fate.refused == 0,
            "{what}: {charged} of {max}, and {fate:?}"
        );
        let next = timeout(SOON, limiter.acquire(&rule(), &key))
            .await
            .expect("the next call is answered");
        assert_eq!(next.is_ok(), charged < max, "{what}: {next:?}");
        assert!(start.elapsed() < SOON);
    }
    let dropped = fates.iter().map(|fate| fate.dropped).sum();
    println!("{what}: {dropped} of {} gave up", TASKS * CALLS);
    dropped
}

/// How many there have been; asking makes one more.
fn connections(server: &RedisServer) -> u64 {
    server
        .info("stats", "total_connections_received")
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_thousand_dropped_futures_leave_nothing_behind() {
    let mut random = Random::new(seed());
    let server = RedisServer::start();
    let mut dropped = 0;
    // Of so many calls on each key, all are admitted, or few.
    for max in [1_000_000, 60] {
        for (what, deny_cache) in [("shared", false), ("shared and cached", true)] {
            let store = server.store().deny_cache(deny_cache);
            store.ready().await.unwrap();
            let made = connections(&server);
            dropped +=
                give_up_at_random(store, &format!("{what} of {max}"), max, random.number()).await;
            assert_eq!(
                connections(&server),
                made + 1,
                "the connection was kept; one more asks this"
            );
        }
        dropped += give_up_at_random(
            MemoryStore::new(),
            &format!("memory of {max}"),
            max,
            random.number(),
        )
        .await;
    }
    assert!(dropped > 10_000, "{dropped}");
}

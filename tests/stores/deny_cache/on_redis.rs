//! On Redis, where it is switched on.

use std::time::Instant;

use ratelimit_runtime::{Key, RateLimitError, RateLimiter, Rule, Source};

use super::*;
use crate::support::redis::RedisServer;
use crate::support::unique;

static RULE: Rule = Rule::new("refused", Limit::per_hour(1)).with_timeout(Duration::from_secs(10));
/// What a fault may take to heal. Far above what it takes, for slow machines.
const PATIENCE: Duration = Duration::from_secs(10);

async fn limiter(store: impl Store) -> RateLimiter {
    let limiter = RateLimiter::builder()
        .store(store)
        .prefix(unique("deny"))
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    limiter
}

/// How many scripts the server has run.
fn scripts_run(server: &RedisServer) -> u64 {
    let calls = |command: &str| {
        let stats = server.info("commandstats", command);
        stats
            .strip_prefix("calls=")
            .and_then(|stats| stats.split(',').next())
            .map_or(0, |n| n.parse().unwrap())
    };
    calls("cmdstat_evalsha") + calls("cmdstat_eval")
}

/// Makes so many calls, of which the first is admitted; says how many were refused by whom.
async fn calls(limiter: &RateLimiter, calls: u64) -> (u64, u64) {
    let (mut by_store, mut by_cache) = (0, 0);
    for call in 0..calls {
        match limiter.acquire(&RULE, &Key::global()).await {
            Ok(_) => assert_eq!(call, 0),
            Err(RateLimitError::Exceeded(refusal)) if refusal.source() == Source::DenyCache => {
                assert!(!refusal.is_degraded());
                by_cache += 1;
            }
            Err(RateLimitError::Exceeded(refusal)) => {
                assert_eq!(refusal.source(), Source::Store);
                by_store += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (by_store, by_cache)
}

#[tokio::test]
async fn a_thousand_refused_calls_ask_once_a_second() {
    let server = RedisServer::start();
    let limiter = limiter(server.store()).await;
    let (before, start) = (scripts_run(&server), Instant::now());
    let (by_store, by_cache) = calls(&limiter, 1_001).await;
    // A refusal is asked for anew after seven eighths of a second; the text of the script is sent
    // once.
    let most = 1 + u64::try_from(start.elapsed().as_millis()).unwrap() / 875;
    assert!(
        by_store <= most && by_cache >= 1_000 - most,
        "{by_store} by the store, {by_cache} by the cache"
    );
    assert!(
        scripts_run(&server) - before <= 2 + by_store,
        "{} scripts",
        scripts_run(&server) - before
    );
}

/// A client that chooses its costs finds none that Redis is asked about.
#[tokio::test]
async fn a_client_that_varies_its_cost_asks_no_more_often() {
    let server = RedisServer::start();
    let store = server.store();
    store.ready().await.unwrap();
    let limits = [Limit::per_hour(1_000)];
    for &algorithm in Algorithm::ALL {
        let key = unique("costs");
        let of = |cost| Request::new(key.as_bytes(), algorithm, &limits).with_cost(cost);
        assert!(ask(&store, of(1_000)).await.allowed);
        assert!(!ask(&store, of(1)).await.allowed);
        let (before, start) = (scripts_run(&server), Instant::now());
        for cost in 1..=1_000 {
            assert!(!ask(&store, of(cost)).await.allowed);
        }
        let most = u64::try_from(start.elapsed().as_millis()).unwrap() / 875;
        assert!(scripts_run(&server) - before <= most, "{algorithm}");
    }
}

/// The first to find the server idle asks by itself, and all others together.
#[tokio::test]
async fn callers_whose_known_refusal_is_too_old_ask_together() {
    let server = RedisServer::start();
    let mut store = server.store();
    store.known_mut().set_staleness(Duration::ZERO);
    store.ready().await.unwrap();
    let limits = [Limit::per_hour(1)];
    let request = Request::new(b"lapsed", Algorithm::TokenBucket, &limits);
    assert!(ask(&store, request).await.allowed);
    assert!(!ask(&store, request).await.allowed);
    let before = scripts_run(&server);
    let callers = (0..64).map(|_| ask(&store, request));
    let verdicts = futures_util::future::join_all(callers).await;
    assert!(verdicts.iter().all(|verdict| !verdict.allowed));
    assert!(scripts_run(&server) - before <= 2);
}

/// The bound is far away: it is the new connection that counts.
#[tokio::test]
async fn a_server_that_was_replaced_is_asked_anew() {
    let mut server = RedisServer::start();
    let mut store = server.store();
    store.known_mut().set_staleness(SECOND * 3600);
    store.ready().await.unwrap();
    assert!(ask(&store, request("key")).await.allowed);
    // The first connection was new, too, when the first question was sent.
    while !ask(&store, request("key")).await.cached {}
    server.restart();
    let start = Instant::now();
    while !store
        .acquire(request("key"))
        .await
        .is_ok_and(|verdict| verdict.allowed)
    {
        assert!(start.elapsed() < PATIENCE);
        // Nothing else would notice: what is refused is not sent.
        let _ = store.peek(request("key")).await;
        tokio::time::sleep(MILLISECOND * 5).await;
    }
}

//! What a server whose memory or disk is full does to limits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind, Verdict};
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, RateLimiter, RedisStore, Rule, Source, Store,
};
use tokio::task::JoinSet;

use super::acquire;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

const DAY: Duration = Duration::from_secs(86_400);

fn full_server(policy: &str) -> RedisServer {
    RedisServer::start_with(&["--maxmemory", "4mb", "--maxmemory-policy", policy])
}

/// Fills the server with new keys, of which each is admitted, as an attacker does who has many
/// addresses; says whether it was refused.
async fn mint(store: &Arc<RedisStore>, round: usize, limit: Limit) -> bool {
    let mut calls = JoinSet::new();
    for number in 0..1_000 {
        let store = Arc::clone(store);
        calls.spawn(async move {
            acquire(&store, &format!("minted:{round}:{number:0>200}"), limit).await
        });
    }
    let answers = calls.join_all().await;
    answers.iter().any(|answer| {
        answer
            .as_ref()
            .is_err_and(|error| error.kind() == StoreErrorKind::Full)
    })
}

/// Asks until the server decides: on a busy machine a connection may be given up, and a server that
/// evicts refuses a call now and then, where that does not free enough at once.
async fn decided(store: &RedisStore, key: &str, limit: Limit) -> Verdict {
    for _ in 0..100 {
        match acquire(store, key, limit).await {
            Ok(verdict) => return verdict,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("the server decides nothing")
}

/// After how many thousand minted keys, of so many at most, a caller who has used up 3 an hour is
/// admitted again.
async fn forgotten_after(policy: &str, minted: Limit, most: usize) -> Option<usize> {
    let server = full_server(policy);
    let store = Arc::new(server.store().deny_cache(false));
    store.ready().await.unwrap();
    let limit = Limit::per_hour(3);
    while decided(&store, "attacker", limit).await.allowed {}
    let mut refused = 0;
    for round in 0..most {
        refused += usize::from(mint(&store, round, minted).await);
        // It is looked for in a manner that does not make it what was used last.
        if server.number(&["EXISTS", "attacker"]) == 0 {
            assert!(
                decided(&store, "attacker", limit).await.allowed,
                "a fresh quota"
            );
            return Some(round + 1);
        }
        if policy == "noeviction" && refused > 10 {
            break;
        }
    }
    assert!(policy != "noeviction" || refused > 10, "the server is full");
    let limits = [limit];
    let kept = store
        .peek(Request::new(b"attacker", Algorithm::SlidingWindow, &limits))
        .await
        .unwrap();
    assert!(!kept.allowed && kept.remaining == 0, "{kept:?}");
    None
}

/// Every key of a limiter has a time to live, so that all policies that evict may pick it, and who
/// mints keys evicts the counter that refuses him. Only `noeviction` keeps it: there the minted
/// keys are the ones that fail. (By `lfu` it may stay for a minute more, so that is not tried.)
#[tokio::test]
async fn a_client_that_mints_keys_evicts_its_own_counter_unless_the_server_refuses() {
    const POLICIES: [&str; 6] = [
        "allkeys-lru",
        "volatile-lru",
        "allkeys-random",
        "volatile-random",
        "volatile-ttl",
        "noeviction",
    ];
    let day = Limit::new(1, DAY);
    let forgotten = join_all(POLICIES.map(|policy| forgotten_after(policy, day, 1_000))).await;
    for (policy, after) in POLICIES.into_iter().zip(forgotten) {
        assert_eq!(
            after.is_none(),
            policy == "noeviction",
            "{policy}: {after:?}"
        );
    }
}

/// A client that fills the disk must not lift limits: neither while writes are refused, nor once a
/// PING has told of it.
#[tokio::test]
async fn a_full_disk_is_never_answered_by_allow() {
    let server = RedisServer::start_without_disk();
    let far = Proxy::start(server.port()).await;
    let rule = Rule::new("full_disk", Limit::per_hour(3));
    // No answer to a call comes in time, but that to a PING does.
    let late = rule.clone().with_timeout(Duration::from_millis(50));
    let limiters = [server.url(), far.url()].map(|url| {
        let builder = RateLimiter::builder().redis(&url);
        let builder = builder.timeout(Duration::from_secs(1));
        builder
            .on_unavailable(OnUnavailable::Allow)
            .build()
            .unwrap()
    });
    for limiter in &limiters {
        limiter.ready().await.unwrap();
    }
    far.delay(Duration::from_millis(40));
    server.fail_to_save();
    let mut calls = JoinSet::new();
    for (limiter, rule) in limiters.into_iter().zip([rule, late].map(Arc::new)) {
        for call in 0..200 {
            let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
            calls.spawn(async move {
                tokio::time::sleep(Duration::from_millis(8 * call)).await;
                limiter.acquire(&rule, &Key::global()).await
            });
        }
    }
    let mut admitted = 0;
    for answer in calls.join_all().await {
        match answer {
            Ok(decision) => {
                assert_eq!(decision.source(), Source::Fallback);
                admitted += 1;
            }
            Err(error) => assert!(error.decision().is_some(), "{error}"),
        }
    }
    assert_eq!(admitted, 2 * 3);
}

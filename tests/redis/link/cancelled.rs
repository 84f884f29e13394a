//! Callers who give up say nothing about the server.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, Rule};

use crate::support::asking::{
    TIMEOUT, ask, ask_within, connected, connections_since, connections_taken,
};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

static RULE: Rule = Rule::new("cancelled", Limit::per_hour(1_000_000));

/// A client that opens 50 requests a second and hangs up at once.
#[tokio::test]
async fn callers_who_hang_up_do_not_end_the_connection() {
    let server = RedisServer::start();
    let limiter = RateLimiter::builder()
        .redis(&server.url())
        .on_unavailable(OnUnavailable::Allow)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let taken = connections_taken(&server);
    let (start, mut honest, mut degraded) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(3) {
        for _ in 0..10 {
            let hasty = limiter.clone();
            let task = tokio::spawn(async move { hasty.acquire(&RULE, &Key::global()).await });
            tokio::task::yield_now().await;
            task.abort();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        honest += 1;
        degraded += u32::from(
            limiter
                .acquire(&RULE, &Key::global())
                .await
                .unwrap()
                .is_degraded(),
        );
    }
    assert_eq!(degraded, 0, "of {honest}");
    assert_eq!(connections_since(&server, taken), 0);
}

/// A rule that gives 50 ms to a server 60 to 150 ms away has no answers; the other rules of its
/// limiter, which gives 400 ms, have theirs.
#[tokio::test]
async fn a_rule_with_a_short_timeout_fails_alone() {
    const OTHERS: Duration = Duration::from_millis(400);
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let store = std::sync::Arc::new(connected(&proxy.url()).await);
    store.answers_within(OTHERS);
    let hasty = tokio::spawn({
        let (store, proxy) = (std::sync::Arc::clone(&store), proxy.clone());
        async move {
            for call in 0_u64.. {
                proxy.delay(Duration::from_millis(30 + call * 7 % 45));
                let _ = ask_within(&store, "hasty", Limit::per_hour(100), TIMEOUT / 2).await;
            }
        }
    });
    let mut answered = 0;
    for _ in 0..20 {
        answered += u32::from(
            ask_within(&store, "calm", Limit::per_hour(100), OTHERS)
                .await
                .is_answered(),
        );
    }
    hasty.abort();
    assert!(answered >= 18, "{answered} of 20");
    assert_eq!(proxy.accepted(), 1);
}

/// Callers were put off because an answer had once taken long; with nothing on its way, no answer
/// could tell that it was over.
#[tokio::test]
async fn one_late_answer_does_not_delay_later_callers() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let store = connected(&proxy.url()).await;
    proxy.delay(Duration::from_millis(80));
    let patient = ask_within(
        &store,
        "key",
        Limit::per_hour(1_000),
        Duration::from_secs(5),
    )
    .await;
    assert!(patient.is_answered(), "{patient:?}");
    proxy.delay(Duration::ZERO);
    let outcome = ask(&store, "key", Limit::per_hour(1_000)).await;
    assert!(outcome.is_answered(), "{outcome:?}");
}

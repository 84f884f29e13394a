//! A master whose memory is full (`maxmemory`, `noeviction`).

use std::time::Instant;

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, Rule};

use super::*;
use crate::support::{settled, unique, until};

const MAX: u64 = 5;

/// The process limits the calls whose node is full, and never lets them through unchecked; callers
/// of another node notice nothing.
#[tokio::test]
async fn a_full_master_is_no_outage_and_touches_its_own_keys_alone() {
    for deployment in [Deployment::sentinel(), Deployment::cluster()] {
        let prefix = unique("full");
        let builder = RateLimiter::builder().redis(&deployment.url());
        let builder = builder.prefix(prefix.as_str()).timeout(TIMEOUT);
        let builder = builder.on_unavailable(OnUnavailable::Allow);
        let limiter = builder.build().unwrap();
        limiter.ready().await.unwrap();
        let rule = Rule::new("full", Limit::per_hour(MAX));
        let key = Key::of(&deployment.number_on(0, &prefix, "full"));
        let call = async || limiter.acquire(&rule, &key).await;
        assert_eq!(
            call().await.unwrap().source(),
            Source::Store,
            "{deployment}"
        );

        let server = deployment.server();
        assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
        let mut admitted = 0;
        for _ in 0..40 {
            let start = Instant::now();
            let called = call().await;
            assert!(
                start.elapsed() < TIMEOUT + SLACK,
                "{deployment}: {called:?}"
            );
            assert_eq!(
                source(&called),
                Some(Source::Fallback),
                "{deployment}: {called:?}"
            );
            admitted += u64::from(called.is_ok());
        }
        assert_eq!(admitted, MAX, "{deployment}");
        if let Deployment::Cluster(_) = deployment {
            let other = Key::of(&deployment.number_on(1, &prefix, "full"));
            for left in (0..MAX).rev() {
                let admitted = limiter.acquire(&rule, &other).await.unwrap();
                assert_eq!(admitted.source(), Source::Store);
                assert_eq!(admitted.remaining(), left);
            }
        }

        assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
        let mut calls = 0;
        let is_back = async || {
            calls += 1;
            call()
                .await
                .is_ok_and(|call| call.source() == Source::Store)
        };
        until("the store decides", Duration::from_secs(1), is_back).await;
        // What the process decided is its own, and the store has charged what it admitted.
        let left = limiter.peek(&rule, &key).await.unwrap().remaining();
        assert_eq!((calls, left), (1, MAX - 2), "{deployment}");
    }
}

/// A stack on two nodes of which one is full is charged on neither.
#[tokio::test]
async fn a_stack_with_a_part_on_a_full_node_leaves_nothing_charged_on_the_other() {
    let deployment = Deployment::cluster();
    let prefix = unique("full");
    let builder = RateLimiter::builder().redis(&deployment.url());
    let builder = builder.prefix(prefix.as_str()).timeout(TIMEOUT);
    let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
    limiter.ready().await.unwrap();
    let rules = ["full_first", "full_second"].map(|name| Rule::new(name, Limit::per_hour(MAX)));
    let on = |rule: usize, master| {
        let number = deployment.number_on(master, &prefix, rules[rule].name());
        (&rules[rule], Key::of(&number))
    };
    let server = deployment.server_on(0);
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    for masters in [[0, 1], [1, 0]] {
        let parts = [on(0, masters[0]), on(1, masters[1])];
        let stack = || parts.iter().map(|(rule, key)| (*rule, key));
        for _ in 0..20 {
            let refused = limiter.acquire_all(stack()).await.unwrap_err();
            assert!(
                matches!(refused, RateLimitError::Unavailable(_)),
                "{refused:?}"
            );
        }
        settled(&limiter).await;
        for (rule, key) in stack() {
            let left = limiter.peek(rule, key).await.unwrap().remaining();
            assert_eq!(left, MAX, "{masters:?}: {}", rule.name());
        }
    }
}

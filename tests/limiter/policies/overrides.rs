//! Other numbers for single keys.

use std::net::IpAddr;
use std::time::Duration;

use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, ExactIp, Key, Limit, MemoryStore, Override, Policy, RateLimitError, RateLimiter,
    Rule, key,
};

use super::super::{MINUTE, alice, bob, everywhere, strict};
use crate::support::deny_cache::DenyCache;
use crate::support::redis::shared;
use crate::support::{misconfigured, says, unique};

/// A customer who is suspended: nothing is known that ends it, and nothing waits for it.
#[tokio::test(start_paused = true)]
async fn a_limit_of_0_refuses_without_retry_after() {
    let start = tokio::time::Instant::now();
    let clock = FakeClock::new();
    let suspended = Rule::new("suspended", Limit::per_minute(0));
    let second = Rule::new("second", Limit::per_hour(5)).and(Limit::new(0, MINUTE / 2));
    let burst = Rule::new("burst", Limit::per_minute(0).with_burst(9));
    let policed = Rule::new("policed", Limit::per_minute(1)).with_policy("none");
    for limiter in everywhere(&clock) {
        limiter
            .set_policies([("none", Policy::new(Limit::per_minute(0)))])
            .unwrap();
        for rule in [
            suspended.clone(),
            suspended.clone().with_cost(3),
            suspended.clone().with_wait(MINUTE),
            second.clone(),
            burst.clone().with_algorithm(Algorithm::TokenBucket),
            policed.clone(),
        ] {
            let peeked = limiter.peek(&rule, &alice()).await.unwrap();
            assert!(!peeked.is_allowed(), "{rule:?}");
            assert_eq!((peeked.limit(), peeked.remaining()), (0, 0));
            assert_eq!((peeked.retry_after(), peeked.is_blocked()), (None, false));
            let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
            assert_eq!(refused.decision(), Some(&peeked), "{rule:?}");
            assert_eq!(refused.to_string(), "too many requests");
            assert!(limiter.reserve(&rule, &alice()).await.is_err());
        }
        let of_second = limiter.peek(&second, &alice()).await.unwrap();
        assert_eq!(
            (of_second.limit_index(), of_second.window()),
            (1, MINUTE / 2)
        );
        let shadow = suspended.clone().with_shadow(true);
        assert!(
            !limiter
                .acquire(&shadow, &alice())
                .await
                .unwrap()
                .is_allowed()
        );
        // Above 0, a cost that never fits is another error.
        let heavy = Rule::new("heavy", Limit::per_minute(1)).with_cost(2);
        let heavy = limiter.acquire(&heavy, &alice()).await.unwrap_err();
        assert!(matches!(
            heavy,
            RateLimitError::CostExceedsLimit { limit: 1, .. }
        ));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn single_keys_have_other_numbers() {
    let rule = Rule::new("overridden", Limit::per_minute(1)).with_policy("api");
    let plain = || Policy::new(Limit::per_minute(2)).and(Limit::per_hour(3));
    let bucket = || Policy::new(Limit::per_minute(1)).with_algorithm(Algorithm::TokenBucket);
    for limiter in everywhere(&FakeClock::new()) {
        let admitted = async |key: &Key| {
            let mut admitted = 0;
            while limiter.acquire(&rule, key).await.is_ok() {
                admitted += 1;
            }
            admitted
        };
        // Keys as they are rendered, also where the store gets their hashes.
        let overridden = plain().with_override(&alice(), Override::max_of_each([4, 5]));
        limiter.set_policies([("api", overridden)]).unwrap();
        assert_eq!((admitted(&alice()).await, admitted(&bob()).await), (4, 2));
        // The bucket is the same without.
        limiter
            .set_policies([(
                "api",
                plain().with_override(&bob(), Override::max_of_each([9, 4])),
            )])
            .unwrap();
        assert_eq!((admitted(&alice()).await, admitted(&bob()).await), (0, 2));
        assert_eq!(
            limiter.peek(&rule, &alice()).await.unwrap().limit(),
            3,
            "what is used of the hour, most of all"
        );

        let overridden = bucket()
            .with_override(&alice(), Override::burst(5))
            .with_override(&bob(), Override::max(7));
        limiter.set_policies([("api", overridden)]).unwrap();
        assert_eq!((admitted(&alice()).await, admitted(&bob()).await), (5, 7));

        // What cannot be used is refused as a whole.
        for (overridden, why) in [
            (
                plain().with_override(&alice(), Override::max(5)),
                "in their order: 2",
            ),
            (
                plain().with_override(&alice(), Override::burst(5)),
                "`sliding_window` has no burst",
            ),
            (
                bucket().with_override(&alice(), Override::burst(0)),
                "a burst of 0 refuses every call",
            ),
            (
                bucket().with_override(&Key::from_rendered("<a(>").unwrap(), Override::max(5)),
                "no call has this key",
            ),
            (
                bucket().with_override(&Key::global(), Override::max(5)),
                "no call has this key",
            ),
        ] {
            let error = misconfigured(limiter.set_policies([("api", overridden)]));
            says(&error, "the policy `api`: the override of ");
            says(&error, why);
        }
        assert_eq!(limiter.peek(&rule, &bob()).await.unwrap().limit(), 7);
    }
}

/// Written as an operator copies it from a log.
#[tokio::test]
async fn an_override_holds_for_an_address_however_it_is_written() {
    let rule = Rule::new("by-address", Limit::per_minute(1)).with_policy("api");
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let policy = |keys: &[(&str, u64)]| {
        let policy = Policy::new(Limit::per_minute(1));
        keys.iter().fold(policy, |policy, (key, max)| {
            policy.with_override(&Key::from_rendered(key).unwrap(), Override::max(*max))
        })
    };
    let limiter = RateLimiter::memory();
    let max = async |key: &Key| limiter.peek(&rule, key).await.unwrap().limit();
    for written in [
        "2001:db8:1:2::1",
        "2001:DB8:1:2::1",
        "2001:db8:1:2:0:0:0:1",
        "2001:db8:1:2::/64",
        "2001:0db8:1:2::1/64",
    ] {
        let tenant = "acme";
        let keys = [&*format!("<{written}>"), &*format!("<acme>:<{written}>")];
        limiter
            .set_policies([("api", policy(&keys.map(|key| (key, 7))))])
            .unwrap();
        let host = ip("2001:db8:1:2::5");
        assert_eq!(max(&Key::of(&host)).await, 7, "{written}");
        assert_eq!(max(&key!("<tenant>:<host>")).await, 7, "{written}");
        assert_eq!(max(&Key::of(&ip("2001:db8:1:3::1"))).await, 1);
        assert_eq!(max(&Key::of(&ExactIp(host))).await, 1, "{written}");
        if !written.ends_with("/64") {
            let exact = ExactIp(ip("2001:db8:1:2::1"));
            assert_eq!(max(&Key::of(&exact)).await, 7, "{written}");
        }
    }
    limiter
        .set_policies([(
            "api",
            policy(&[("<::ffff:192.0.2.1>", 7), ("<192.0.2.2>", 8)]),
        )])
        .unwrap();
    assert_eq!(max(&Key::of(&ip("192.0.2.1"))).await, 7);
    assert_eq!(max(&Key::of(&ip("192.0.2.2"))).await, 8);

    // Two of one subscriber.
    let hosts = [("<2001:db8::1>", 7), ("<2001:db8::2>", 8)];
    limiter.set_policies([("api", policy(&hosts))]).unwrap();
    assert_eq!(max(&Key::of(&ip("2001:db8::1"))).await, 1);
    assert_eq!(max(&Key::of(&ExactIp(ip("2001:db8::1")))).await, 7);
    let written = [("<2001:db8::1>", 7), ("<2001:db8::/64>", 8)];
    limiter.set_policies([("api", policy(&written))]).unwrap();
    assert_eq!(max(&Key::of(&ip("2001:db8::1"))).await, 8);

    // Two of one address.
    for (key, other) in [
        ("<192.0.2.1>", "<::ffff:192.0.2.1>"),
        ("<2001:db8::1>", "<2001:DB8::1>"),
        ("<2001:db8:0::1>", "<2001:db8::0:1>"),
        ("<acme>:<2001:db8::1>", "<acme>:<2001:0db8::1>"),
    ] {
        let written = policy(&[(key, 7), (other, 8)]);
        let error = misconfigured(limiter.set_policies([("api", written)]));
        says(&error, "there is one already, in another notation");
    }

    for network in ["10.0.0.0/8", "2001:db8::/32", "192.0.2.1/32"] {
        let keys = [(&*format!("<{network}>"), 7)];
        let error = misconfigured(limiter.set_policies([("api", policy(&keys))]));
        says(&error, &format!("the network {network}"));
    }
}

/// A key that was refused a moment ago is asked about again at once: with another `max` it is
/// another question.
#[tokio::test]
async fn a_raised_override_is_seen_at_once_with_a_deny_cache_and_without() {
    let rule = Rule::new("raised", Limit::per_minute(1)).with_policy("api");
    let policy = |max| Policy::new(Limit::per_hour(1)).with_override(&alice(), Override::max(max));
    let clock = FakeClock::new();
    let memory = || MemoryStore::new().with_clock(clock.clone());
    let redis = || shared().store().with_clock(clock.clone());
    for (place, limiter) in [
        ("memory", strict().store(memory())),
        (
            "memory, deny cache",
            strict().store(DenyCache::new(memory())),
        ),
        (
            "Redis",
            strict()
                .store(redis().deny_cache(false))
                .prefix(unique("raised")),
        ),
        (
            "Redis, deny cache",
            strict().store(redis()).prefix(unique("raised")),
        ),
    ] {
        println!("{place}:");
        let limiter = limiter.policy("api", policy(1)).build().unwrap();
        let attempt = async || limiter.acquire(&rule, &alice()).await.is_ok();
        assert!(attempt().await && !attempt().await && !attempt().await);
        limiter.set_policies([("api", policy(3))]).unwrap();
        assert!(attempt().await && attempt().await && !attempt().await && !attempt().await);
        limiter.set_policies([("api", policy(2))]).unwrap();
        assert!(!attempt().await, "what was admitted counts");
    }
}

/// Such as that of a customer who does not pay.
#[tokio::test]
async fn an_override_of_0_suspends_one_key_until_it_is_raised() {
    let rule = Rule::new("suspended", Limit::per_minute(1)).with_policy("api");
    let policy = |text: &str| text.parse::<Policy>().unwrap();
    for limiter in everywhere(&FakeClock::new()) {
        for text in ["5/1m", "token_bucket 5/1m burst 9", "leaky_bucket 5/1m"] {
            let suspending = policy(text).with_override(&alice(), Override::max(0));
            limiter.set_policies([("api", suspending)]).unwrap();
            let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
            assert!(refused.decision().is_some(), "{text}: {refused:?}");
            assert_eq!(refused.retry_after(), None, "{text}");
            assert!(limiter.acquire(&rule, &bob()).await.is_ok());
        }
        limiter.set_policies([("api", policy("5/1m"))]).unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    }
}

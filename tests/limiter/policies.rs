//! Policies: limits by name, replaced while running.

use std::net::IpAddr;
use std::task::Poll;
use std::time::Duration;

use super::{MINUTE, alice, bob, everywhere, strict};
use crate::support::deny_cache::DenyCache;
use crate::support::redis::shared;
use crate::support::{misconfigured, says, unique};
use ratelimit_runtime::testkit::{FakeClock, FaultyStore};
use ratelimit_runtime::{
    Algorithm, CalendarUnit, ExactIp, Key, Limit, MemoryStore, OnUnavailable, Override, Policy,
    RateLimitError, RateLimiter, Rule, Source, key, rate_limit,
};
use tokio::sync::Notify;

#[tokio::test]
async fn policies_are_replaced_while_running() {
    let clock = FakeClock::new();
    let rule = Rule::new("policed", Limit::per_minute(1)).with_policy("login");
    for limiter in everywhere(&clock) {
        says(
            &misconfigured(limiter.acquire(&rule, &alice()).await),
            "no policy `login`",
        );
        assert!(
            limiter.peek(&rule, &alice()).await.is_err(),
            "nor does peek make one up"
        );

        limiter
            .set_policies([("login", Policy::new(Limit::per_minute(2)))])
            .unwrap();
        for _ in 0..2 {
            assert!(limiter.acquire(&rule, &alice()).await.is_ok());
        }
        assert!(limiter.acquire(&rule, &alice()).await.is_err());

        // Another `max` goes on with what was counted.
        limiter
            .set_policies([("login", Policy::new(Limit::per_minute(3)))])
            .unwrap();
        assert_eq!(
            limiter.acquire(&rule, &alice()).await.unwrap().remaining(),
            0
        );

        // Another algorithm, or another window, starts afresh.
        let fixed = Policy::new(Limit::per_minute(3))
            .with_algorithm(Algorithm::FixedWindow)
            .with_block(MINUTE * 10);
        limiter.set_policies([("login", fixed)]).unwrap();
        for left in [2, 1, 0] {
            assert_eq!(
                limiter.acquire(&rule, &alice()).await.unwrap().remaining(),
                left
            );
        }
        let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
        assert!(refused.decision().unwrap().is_blocked(), "the policy's ban");

        let two = Policy::new(Limit::per_hour(100)).and(Limit::new(1, Duration::from_secs(5)));
        limiter.set_policies([("login", two)]).unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_ok());
        let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
        let decision = refused.decision().unwrap();
        assert_eq!((decision.limit_index(), decision.limit()), (1, 1));

        // What cannot be used changes nothing.
        let many = (0..20).fold(Policy::new(Limit::per_hour(1)), |policy, _| {
            policy.and(Limit::per_hour(1))
        });
        assert!(limiter.set_policies([("login", many)]).is_err());
        assert!(limiter.peek(&rule, &alice()).await.is_ok());
    }
}

/// A call that waits for room would only be blocked for longer.
#[tokio::test]
async fn a_policy_that_blocks_is_not_used_by_a_rule_that_waits() {
    let waiting = Rule::new("waiting", Limit::per_minute(1))
        .with_wait(MINUTE)
        .with_policy("login");
    let blocks = Policy::new(Limit::per_minute(2)).with_block(MINUTE);
    for limiter in everywhere(&FakeClock::new()) {
        limiter.set_policies([("login", blocks.clone())]).unwrap();
        says(
            &misconfigured(limiter.acquire(&waiting, &alice()).await),
            "the policy `login`: a call either waits or is blocked",
        );
        limiter
            .set_policies([("login", blocks.clone().with_wait(Duration::ZERO))])
            .unwrap();
        assert_eq!(
            limiter
                .acquire(&waiting, &alice())
                .await
                .unwrap()
                .remaining(),
            1,
            "nothing was charged"
        );

        // By now the limiter knows the rule.
        let error = misconfigured(limiter.set_policies([("login", blocks.clone())]));
        says(
            &error,
            "the policy `login`: a call either waits or is blocked",
        );
        says(&error, "the old set stays in force");
        assert_eq!(
            limiter
                .acquire(&waiting, &alice())
                .await
                .unwrap()
                .remaining(),
            0
        );
    }
    // By hand.
    let both = Rule::new("both", Limit::per_minute(1))
        .with_wait(MINUTE)
        .with_block(MINUTE);
    let limiter = RateLimiter::memory();
    for _ in 0..2 {
        says(
            &misconfigured(limiter.acquire(&both, &alice()).await),
            "either waits or is blocked",
        );
    }
    // Made of one that the limiter has met.
    let blocks = Rule::new("blocks", Limit::per_minute(1)).with_block(MINUTE);
    assert!(limiter.acquire(&blocks, &alice()).await.is_ok());
    says(
        &misconfigured(
            limiter
                .acquire(&blocks.clone().with_wait(MINUTE), &alice())
                .await,
        ),
        "either waits or is blocked",
    );
}

/// A service that asks at its start does not meet a misspelt name at its first request.
#[tokio::test]
async fn a_policy_that_does_not_go_with_what_a_rule_takes_ahead_is_not_used() {
    let second = Duration::from_secs(1);
    let ahead = Rule::new("ahead", Limit::per_second(9))
        .with_prefetch(second)
        .with_policy("search");
    let of_windows =
        |seconds| Policy::new(Limit::per_minute(2)).and(Limit::new(2, second * seconds));
    let blocks = Policy::new(Limit::per_minute(2)).with_block(MINUTE);
    for (policy, why) in [
        (blocks, "would block the innocent"),
        (
            of_windows(49),
            "write at most \"980ms\" (in the policy, \"0s\" turns",
        ),
    ] {
        for limiter in everywhere(&FakeClock::new()) {
            limiter.set_policies([("search", policy.clone())]).unwrap();
            says(&misconfigured(limiter.acquire(&ahead, &alice()).await), why);
            let off = policy.clone().with_prefetch(Duration::ZERO);
            limiter.set_policies([("search", off)]).unwrap();
            let admitted = limiter.acquire(&ahead, &alice()).await.unwrap();
            assert_eq!(admitted.remaining(), 1, "nothing was charged");

            // By now the limiter knows the rule.
            let error = misconfigured(limiter.set_policies([("search", policy.clone())]));
            says(&error, why);
            says(&error, "the old set stays in force");
            limiter.set_policies([("search", of_windows(50))]).unwrap();
            assert!(limiter.acquire(&ahead, &bob()).await.is_ok());
        }
    }
}

#[tokio::test]
async fn a_limiter_names_the_policies_that_it_lacks() {
    let limiter = RateLimiter::builder()
        .policy("login-adress", Policy::new(Limit::per_minute(3)))
        .build()
        .unwrap();
    assert!(
        limiter.require_policies(&["login-adress"]).is_ok()
            && limiter.require_policies(&[]).is_ok()
    );
    let error =
        misconfigured(limiter.require_policies(&["login-address", "login-adress", "search"]));
    says(&error, "lacks the policies `login-address`, `search`");
}

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

/// By each process, whether or not a call of it has used the policy.
#[test]
fn a_set_that_lacks_a_required_policy_is_refused() {
    let policy = || Policy::new(Limit::per_minute(3));
    let limiter = RateLimiter::builder()
        .policies([("login", policy()), ("search", policy())])
        .build()
        .unwrap();
    // Names that are required in vain are not remembered.
    limiter.require_policies(&["search", "other"]).unwrap_err();
    limiter.set_policies([("login", policy())]).unwrap();
    limiter.require_policies(&["login"]).unwrap();
    says(
        &misconfigured(limiter.set_policies([("search", policy())])),
        "lacks the policy `login`",
    );
    limiter.require_policies(&["login"]).unwrap();
    limiter.set_policies([("login", policy())]).unwrap();
}

#[tokio::test]
async fn a_set_that_lacks_a_policy_in_use_is_refused_and_the_old_ones_stay_in_force() {
    let login = Rule::new("policed", Limit::per_minute(1)).with_policy("login");
    let search = Rule::new("searched", Limit::per_minute(1)).with_policy("search");
    let policy = |max| Policy::new(Limit::per_minute(max));
    for limiter in everywhere(&FakeClock::new()) {
        limiter
            .set_policies([
                ("login", policy(2)),
                ("search", policy(3)),
                ("unused", policy(4)),
            ])
            .unwrap();
        assert!(limiter.acquire(&login, &alice()).await.is_ok());

        says(
            &misconfigured(limiter.set_policies([("logn", policy(9)), ("search", policy(9))])),
            "lacks the policy `login`",
        );
        // As a whole: neither the quota of `login` nor that of `search` has changed.
        assert_eq!(
            limiter.acquire(&login, &alice()).await.unwrap().remaining(),
            0
        );
        assert_eq!(limiter.peek(&search, &alice()).await.unwrap().limit(), 3);

        // A look is a use as well, and a set that is replaced hands on what was used.
        limiter
            .set_policies([("login", policy(5)), ("search", policy(5))])
            .unwrap();
        let lacks_both = misconfigured(limiter.set_policies([] as [(&str, Policy); 0]));
        says(&lacks_both, "lacks the policies `login`, `search`");
        assert!(limiter.acquire(&login, &alice()).await.is_ok());
    }
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

/// The hour stays an hour.
#[test]
fn the_error_of_a_calendar_quota_under_another_algorithm_names_a_duration() {
    for (unit, instead) in CalendarUnit::ALL
        .iter()
        .zip(["1h", "1d", "7d", "30d", "365d"])
    {
        let policy = Policy::new(Limit::calendar(5, *unit));
        let error = misconfigured(RateLimiter::builder().policy("api", policy).build());
        says(&error, &format!("such as `5/{instead}`"));
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_when_they_are_set() {
    let policy = || Policy::new(Limit::per_minute(1));
    for (policy, why) in [
        (
            policy().with_wait(2 * 60 * MINUTE),
            "from \"1ms\" to \"1h\"",
        ),
        (policy().with_timeout(2 * MINUTE), "from \"1ms\" to \"60s\""),
        (
            policy().with_wait(MINUTE).with_block(MINUTE),
            "either waits or is blocked",
        ),
        (
            policy().with_wait(MINUTE).with_shadow(true),
            "`wait` is never used",
        ),
        (
            policy().with_prefetch(Duration::from_millis(1)),
            "from \"10ms\" to \"10s\"",
        ),
        (
            policy()
                .with_prefetch(MINUTE / 60)
                .with_growing_block(MINUTE, MINUTE * 2),
            "would block the innocent",
        ),
        (
            policy().with_prefetch(MINUTE / 49),
            "write at most \"1200ms\"",
        ),
    ] {
        let error = misconfigured(RateLimiter::builder().policy("api", policy).build());
        says(&error, "the policy `api`: ");
        says(&error, why);
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

#[tokio::test(start_paused = true)]
async fn a_policy_decides_about_calls_in_an_outage() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .on_unavailable(OnUnavailable::Deny)
        .build()
        .unwrap();
    let rule = Rule::new("outage", Limit::per_minute(1))
        .with_policy("api")
        .with_on_unavailable(OnUnavailable::Local);
    let policy = || Policy::new(Limit::per_minute(2)).with_override(&alice(), Override::max(5));
    limiter.set_policies([("api", policy())]).unwrap();
    store.fail();
    // The fallback knows the overrides, too.
    for _ in 0..5 {
        assert_eq!(
            limiter.acquire(&rule, &alice()).await.unwrap().source(),
            Source::Fallback
        );
    }
    assert!(limiter.acquire(&rule, &alice()).await.is_err());
    limiter
        .set_policies([("api", policy().with_on_unavailable(OnUnavailable::Allow))])
        .unwrap();
    assert_eq!(
        limiter.acquire(&rule, &alice()).await.unwrap().source(),
        Source::Nobody
    );
    limiter
        .set_policies([("api", policy().with_on_unavailable(OnUnavailable::Deny))])
        .unwrap();
    let denied = limiter.acquire(&rule, &bob()).await.unwrap_err();
    assert!(
        matches!(denied, RateLimitError::Unavailable(_)),
        "{denied:?}"
    );

    store.hang();
    let start = tokio::time::Instant::now();
    let quick = policy()
        .with_on_unavailable(OnUnavailable::Deny)
        .with_timeout(Duration::from_millis(5));
    limiter.set_policies([("api", quick)]).unwrap();
    let slow = rule.clone().with_timeout(Duration::from_secs(60));
    let late = limiter.acquire(&slow, &bob()).await.unwrap_err();
    assert!(matches!(late, RateLimitError::Unavailable(_)), "{late:?}");
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "the policy's timeout, not the rule's"
    );
}

#[tokio::test]
async fn a_name_made_at_run_time_reaches_its_policy() {
    static EXPORT: Rule = Rule::new("export", Limit::per_minute(1));
    let limiter = RateLimiter::builder()
        .policy("gold", Policy::new(Limit::per_minute(7)))
        .build()
        .unwrap();
    for plan in ["gold".to_owned(), format!("go{}", "ld")] {
        let rule = EXPORT.with_policy_named(plan);
        assert_eq!(rule.policy(), Some("gold"));
        assert_eq!(limiter.acquire(&rule, &alice()).await.unwrap().limit(), 7);
    }
    says(
        &misconfigured(
            limiter
                .acquire(&EXPORT.with_policy_named("silver"), &alice())
                .await,
        ),
        "no policy `silver`, only `gold`",
    );
    misconfigured(
        limiter
            .acquire(&EXPORT.clone().with_policy_per_call(), &alice())
            .await,
    );
}

#[rate_limit(limiter = limiter, key = "<user>", policy = "export", concurrent = 5)]
async fn export(limiter: &RateLimiter, user: &str, ends: &Notify) -> Result<(), RateLimitError> {
    ends.notified().await;
    Ok(())
}

/// How many calls are admitted before one is refused for want of a permit.
async fn permitted(limiter: &RateLimiter, user: &str) -> usize {
    let ends = Notify::new();
    let mut running = Vec::new();
    loop {
        let mut call = Box::pin(export(limiter, user, &ends));
        match futures_util::poll!(&mut call) {
            Poll::Pending => running.push(call),
            Poll::Ready(refused) => {
                assert_eq!(refused.unwrap_err().retry_after(), None);
                return running.len();
            }
        }
    }
}

#[tokio::test]
async fn a_policy_says_how_many_calls_may_be_in_flight_and_changes_that() {
    let limiter = RateLimiter::memory();
    let set = |policy: &str| limiter.set_policies([("export", policy.parse().unwrap())]);
    set("1000/1h").unwrap();
    assert_eq!(permitted(&limiter, "alice").await, 5, "the rule's own");
    set("1000/1h concurrent 2 lease 10s").unwrap();
    assert_eq!(permitted(&limiter, "alice").await, 2);
    set("1000/1h concurrent 7").unwrap();
    assert_eq!(permitted(&limiter, "alice").await, 7);
    for wrong in [
        "5/1h concurrent 0",
        "5/1h lease 1s",
        "5/1h lease 2h",
        "5/1h concurrent many",
    ] {
        assert!(wrong.parse::<Policy>().is_err(), "{wrong}");
    }
    let table: Policy =
        toml::from_str("limits = \"1000/1h\"\nconcurrent = 2\nlease = \"10s\"").unwrap();
    assert_eq!(table, "1000/1h concurrent 2 lease 10s".parse().unwrap());
}

#[rate_limit(limiter = limiter, key = "<user>", policy = "export", concurrent = most)]
async fn export_at_most(
    limiter: &RateLimiter,
    user: &str,
    most: u64,
    ends: &Notify,
) -> Result<(), RateLimitError> {
    ends.notified().await;
    Ok(())
}

#[tokio::test]
async fn a_policy_says_how_many_calls_may_be_in_flight_where_a_call_does() {
    let limiter = RateLimiter::memory();
    let ends = Notify::new();
    for (policy, at_most) in [("1000/1h", 3), ("1000/1h concurrent 2", 2)] {
        let policy = policy.parse().unwrap();
        limiter.set_policies([("export", policy)]).unwrap();
        let mut running: Vec<_> = (0..4)
            .map(|_| Box::pin(export_at_most(&limiter, "alice", 3, &ends)))
            .collect();
        let mut pending = 0;
        for call in &mut running {
            pending += usize::from(futures_util::poll!(call).is_pending());
        }
        assert_eq!(pending, at_most);
    }
}

#[tokio::test]
async fn a_policy_with_concurrent_is_misconfigured_for_a_rule_without() {
    for policy in ["5/1h concurrent 2", "5/1h lease 10s"] {
        let limiter = RateLimiter::memory();
        let set = |policy: &str| limiter.set_policies([("plain", policy.parse().unwrap())]);
        set(policy).unwrap();
        let rule = Rule::new("no-permits", Limit::per_minute(1)).with_policy("plain");
        says(
            &misconfigured(limiter.acquire(&rule, &alice()).await),
            "give it `concurrent` too",
        );

        // By now the limiter knows the rule.
        set("5/1h").unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_ok());
        let error = misconfigured(set(policy));
        says(&error, "the policy `plain` is for calls in flight");
        says(&error, "the old set stays in force");
        assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    }
}

/// A limit is raised because calls wait: those that come then do not wait behind them.
#[tokio::test(start_paused = true)]
async fn new_calls_have_a_raised_limit_while_others_wait_under_the_old_one() {
    let policy = |max, concurrent| {
        let policy = Policy::new(Limit::per_hour(max)).with_concurrent(concurrent);
        [("raised", policy)]
    };
    for (max, concurrent) in [(1, 9), (9, 1)] {
        let limiter = RateLimiter::builder()
            .policies(policy(max, concurrent))
            .build()
            .unwrap();
        let rule = Rule::new("raised", Limit::per_hour(1))
            .with_policy("raised")
            .with_concurrent(1)
            .with_wait(60 * MINUTE);
        let key = alice();
        let enter = async || limiter.enter(&rule, &key).await.unwrap();
        let _first = enter().await;
        let mut waiter = Box::pin(limiter.enter(&rule, &key));
        assert!(futures_util::poll!(&mut waiter).is_pending());
        limiter.set_policies(policy(9, 9)).unwrap();
        let start = tokio::time::Instant::now();
        let _others = [enter().await, enter().await];
        assert_eq!(start.elapsed(), Duration::ZERO, "{max} {concurrent}");
        assert!(futures_util::poll!(&mut waiter).is_pending());
    }
}

/// Also of keys that are hashed with what is stored before them.
#[tokio::test]
async fn a_refund_belongs_to_the_policy_under_which_the_call_was_charged() {
    let rule = Rule::new("refunded", Limit::per_minute(1)).with_policy("login");
    let policy = |algorithm| Policy::new(Limit::per_day(2)).with_algorithm(algorithm);
    for limiter in everywhere(&FakeClock::new()) {
        let put = |policy: Policy| limiter.set_policies([("login", policy)]).unwrap();
        let remaining = async || limiter.peek(&rule, &alice()).await.unwrap().remaining();
        put(policy(Algorithm::FixedWindow));
        let before = limiter.acquire(&rule, &alice()).await.unwrap();
        for other in [
            policy(Algorithm::TokenBucket),
            policy(Algorithm::SlidingWindow),
            policy(Algorithm::FixedWindow).and(Limit::per_hour(2)),
        ] {
            put(other);
            let other = limiter.acquire(&rule, &alice()).await.unwrap();
            assert_eq!(remaining().await, 1);
            let refunded = limiter.refund(&rule, &alice(), &before).await;
            assert!(refunded.unwrap());
            assert_eq!(remaining().await, 1, "the later charge stays");
            put(policy(Algorithm::FixedWindow));
            assert_eq!(remaining().await, 2);
            assert!(limiter.acquire(&rule, &alice()).await.is_ok());
            assert!(limiter.refund(&rule, &alice(), &other).await.unwrap());
            assert_eq!(remaining().await, 1);
        }
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

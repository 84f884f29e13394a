//! Acquire, peek, reset, refund, block and unblock under `key!`, in memory and on Redis, through
//! prefixes and hashed keys.

use std::time::{Duration, Instant};

use super::{ALGORITHMS, MINUTE, alice, bob, everywhere, on_redis};
use crate::support::{misconfigured, says, unique};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Key, Limit, RateLimitError, RateLimiter, Rule, rate_limit};

#[tokio::test]
async fn acquire_peek_reset_refund_and_block_work_under_every_algorithm() {
    let clock = FakeClock::new();
    for limiter in everywhere(&clock) {
        for &algorithm in ALGORITHMS {
            let rule = Rule::named(format!("{algorithm:?}"), Limit::per_minute(3))
                .with_algorithm(algorithm);
            println!("{algorithm}");
            every_order(&limiter, &rule).await;
        }
    }
}

async fn every_order(limiter: &RateLimiter, rule: &Rule) {
    let remaining = || async { limiter.peek(rule, &alice()).await.unwrap().remaining() };
    assert_eq!(remaining().await, 3);
    assert!(!limiter.reset(rule, &alice()).await.unwrap());

    let first = limiter.acquire(rule, &alice()).await.unwrap();
    assert_eq!(
        (first.remaining(), first.limit(), first.rule()),
        (2, 3, rule.name())
    );
    let _ = limiter.acquire(rule, &alice()).await.unwrap();
    assert!(limiter.refund(rule, &alice(), &first).await.unwrap());
    assert_eq!(remaining().await, 2);

    limiter.block(rule, &alice(), MINUTE * 10).await.unwrap();
    let banned = limiter.peek(rule, &alice()).await.unwrap();
    assert!(
        !banned.is_allowed() && banned.is_blocked() && banned.retry_after() == Some(MINUTE * 10),
        "{banned:?}"
    );
    let refused = limiter.acquire(rule, &alice()).await.unwrap_err();
    assert_eq!(refused.retry_after(), Some(MINUTE * 10));
    assert_eq!(
        limiter.peek(rule, &bob()).await.unwrap().remaining(),
        3,
        "no other key is blocked"
    );
    assert_eq!(
        banned.remaining(),
        0,
        "a block leaves nothing, whatever is left of the limits"
    );
    assert!(limiter.unblock(rule, &alice()).await.unwrap());
    assert!(!limiter.unblock(rule, &alice()).await.unwrap());
    assert_eq!(remaining().await, 2);

    assert!(limiter.reset(rule, &alice()).await.unwrap());
    assert!(
        !limiter.refund(rule, &alice(), &first).await.unwrap(),
        "a reset takes admissions along"
    );
    assert_eq!(remaining().await, 3);
}

#[tokio::test]
async fn a_block_is_longer_than_nothing_and_no_longer_than_a_year() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("ban", Limit::per_minute(3));
    for wrong in [Duration::ZERO, Duration::from_secs(367 * 86_400)] {
        misconfigured(limiter.block(&rule, &alice(), wrong).await);
    }
    assert!(limiter.peek(&rule, &alice()).await.unwrap().is_allowed());
}

#[tokio::test]
async fn changes_by_one_process_are_seen_by_others_at_once() {
    let (clock, prefix) = (FakeClock::new(), unique("two"));
    let rule = Rule::new("shared", Limit::per_minute(2));
    let limiter = || {
        on_redis(&clock, &prefix)
            .hash_keys("secret")
            .build()
            .unwrap()
    };
    let (here, there) = (limiter(), limiter());
    let other_secret = on_redis(&clock, &prefix)
        .hash_keys("another secret")
        .build()
        .unwrap();
    let other_prefix = on_redis(&clock, &unique("two"))
        .hash_keys("secret")
        .build()
        .unwrap();

    let first = here.acquire(&rule, &alice()).await.unwrap();
    assert_eq!(there.peek(&rule, &alice()).await.unwrap().remaining(), 1);
    assert!(there.refund(&rule, &alice(), &first).await.unwrap());
    assert_eq!(here.peek(&rule, &alice()).await.unwrap().remaining(), 2);
    // To what changes a key, no cost is too large.
    let heavy = rule.clone().with_cost(1_001);
    here.block(&heavy, &alice(), MINUTE).await.unwrap();
    assert!(there.peek(&rule, &alice()).await.unwrap().is_blocked());
    for apart in [&other_secret, &other_prefix] {
        assert!(apart.peek(&rule, &alice()).await.unwrap().is_allowed());
        assert!(!apart.unblock(&rule, &alice()).await.unwrap());
    }
    assert!(there.unblock(&heavy, &alice()).await.unwrap());
    assert!(here.acquire(&rule, &alice()).await.is_ok());
    assert!(there.reset(&heavy, &alice()).await.unwrap());
    assert_eq!(here.peek(&rule, &alice()).await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn key_reaches_the_bucket_of_an_attribute() {
    #[rate_limit(
        name = "by hand: send", key = "<tenant>/<email>", window = "60s", max = max, cost = cost,
        count = "ok"
    )]
    async fn send(tenant: &str, email: &str, max: u64, cost: u64) -> Result<(), RateLimitError> {
        Ok(())
    }
    let rule = Rule::new("by hand: send", Limit::per_minute(6));
    let clock = FakeClock::new();
    for limiter in everywhere(&clock) {
        limiter
            .scope(async {
                let alice_sends =
                    async |max, cost| send("acme", "alice@example.com", max, cost).await;
                alice_sends(6, 4).await.unwrap();
                assert_eq!(limiter.peek(&rule, &alice()).await.unwrap().remaining(), 2);
                assert!(limiter.acquire(&rule.with_cost(2), &alice()).await.is_ok());
                assert!(alice_sends(6, 1).await.is_err(), "used up by hand");
                assert!(
                    alice_sends(8, 2).await.is_ok() && alice_sends(8, 1).await.is_err(),
                    "a raised limit"
                );
                assert!(limiter.reset(&rule, &alice()).await.unwrap());
                limiter.block(&rule, &alice(), MINUTE).await.unwrap();
                assert!(alice_sends(6, 1).await.is_err(), "blocked");
                assert!(send("acme", "bob@example.com", 6, 1).await.is_ok());
                assert!(limiter.unblock(&rule, &alice()).await.unwrap());
                assert!(alice_sends(6, 6).await.is_ok());
            })
            .await;
    }
}

/// Its buckets are those of its windows and algorithm, whether the rule that it was made of has
/// been used or not.
#[tokio::test]
async fn a_changed_copy_of_a_used_rule_has_buckets_of_its_own() {
    let base = || Rule::new("base", Limit::per_minute(10));
    let hourly = |rule: Rule| rule.and(Limit::per_hour(20));
    let leaky = |rule: Rule| rule.with_algorithm(Algorithm::LeakyBucket);
    let changes: [&dyn Fn(Rule) -> Rule; 3] = [&hourly, &leaky, &|rule| leaky(hourly(rule))];
    for change in changes {
        let limiter = RateLimiter::memory();
        let used = base();
        assert_eq!(
            limiter.acquire(&used, &alice()).await.unwrap().remaining(),
            9
        );
        // As if it had been written so: under one name, windows and algorithm are the same
        // everywhere.
        for other in [
            change(base()),
            change(used.clone()),
            change(used.clone()).clone(),
            change(used.clone()),
        ] {
            misconfigured(limiter.acquire(&other, &alice()).await);
        }
        // Where it is the only one of its name, it has buckets of its own, again and again.
        let alone = RateLimiter::memory();
        let other = change(used.clone());
        assert_eq!(
            alone.acquire(&other, &alice()).await.unwrap().remaining(),
            9
        );
        assert!(
            alone.acquire(&used, &alice()).await.is_err(),
            "the rule as it was is the second meaning there"
        );
        let twice = RateLimiter::memory();
        assert_eq!(
            twice
                .acquire(&other.and(Limit::per_day(3)), &alice())
                .await
                .unwrap()
                .remaining(),
            2
        );
        // What changes no bucket goes on.
        for same in [
            used.clone(),
            used.with_max(10),
            used.with_cost(1),
            used.clone().with_block(MINUTE),
            used,
        ] {
            assert!(limiter.acquire(&same, &alice()).await.is_ok());
        }
        assert_eq!(
            limiter.peek(&base(), &alice()).await.unwrap().remaining(),
            4
        );
    }
}

/// As where one rule has a `max` for each customer, and an operator looks at it or resets it.
#[tokio::test]
async fn a_copy_with_another_max_has_that_also_where_its_rule_was_used() {
    let limiter = RateLimiter::memory();
    let rule = Rule::named("plans", Limit::per_day(10));
    let capacity = async |rule: &Rule| limiter.peek(rule, &alice()).await.unwrap().limit();
    assert_eq!(capacity(&rule).await, 10);
    let small = rule.with_max(2);
    assert_eq!(capacity(&small).await, 2);
    assert_eq!(capacity(&small.with_max(5)).await, 5);
    assert_eq!(capacity(&rule.with_cost(2).with_max(3)).await, 3);
    for _ in 0..2 {
        assert!(limiter.acquire(&small, &alice()).await.is_ok());
    }
    let refused = limiter.acquire(&small, &alice()).await;
    assert_eq!(refused.unwrap_err().decision().unwrap().limit(), 2);
    assert_eq!(capacity(&rule).await, 10);
}

/// A client chooses the size of its batch, so that is no wrong setting, under any algorithm.
#[tokio::test]
async fn a_cost_above_the_limit_is_cost_exceeds_limit() {
    for &algorithm in ALGORITHMS {
        let rule = Rule::new("batch", Limit::per_minute(5))
            .with_algorithm(algorithm)
            .with_cost(6);
        let error = RateLimiter::memory().acquire(&rule, &alice()).await;
        let error = error.unwrap_err().to_string();
        assert_eq!(
            error, "a request of cost 6 is above the limit of 5",
            "{algorithm}"
        );
    }
}

/// What cannot have an effect is said, as the attribute says it.
#[tokio::test]
async fn a_setting_that_has_no_effect_is_misconfigured() {
    let limiter = RateLimiter::memory();
    let bursting = Limit::per_minute(5).with_burst(20);
    for (rule, why) in [
        (Rule::new("log", bursting), "has no burst"),
        (
            Rule::new("window", bursting).with_algorithm(Algorithm::FixedWindow),
            "has no burst",
        ),
        (
            Rule::in_flight("blocked", 5).with_block(MINUTE),
            "leave the block out",
        ),
        (
            Rule::in_flight("kept", 5).with_algorithm(Algorithm::FixedWindow),
            "leave `with_algorithm` out",
        ),
        (
            Rule::in_flight("weighed", 5).with_cost(2),
            "leave `with_cost` out",
        ),
        (
            Rule::in_flight("free", 5).with_cost(0),
            "leave `with_cost` out",
        ),
        (
            Rule::in_flight("most", 5).with_max(1),
            "leave `with_max` out",
        ),
    ] {
        let entered = limiter.enter(&rule.with_concurrent(5), &alice()).await;
        says(&misconfigured(entered), why);
    }
    let policy = ratelimit_runtime::Policy::new(bursting);
    says(
        &misconfigured(limiter.set_policies([("log", policy)])),
        "has no burst",
    );
}

/// Each call may have a cost and a `max` of its own.
#[tokio::test]
async fn a_number_of_limits_is_misconfigured_where_only_calls_in_flight_are_limited() {
    static EXPORT: Rule = Rule::in_flight("export", 5);
    let limiter = RateLimiter::memory();
    drop(limiter.enter(&EXPORT, &alice()).await.unwrap());
    for rule in [EXPORT.with_cost(2), EXPORT.with_max(2)] {
        let peeked = misconfigured(limiter.peek(&rule, &alice()).await);
        let counted = misconfigured(limiter.in_flight(&rule, &alice()).await);
        let plain = Rule::new("plain", Limit::per_minute(5));
        let entered = limiter
            .enter_all([(&plain, &alice()), (&rule, &alice())])
            .await;
        for error in [peeked, counted, misconfigured(entered)] {
            says(
                &error,
                "the rule `export` limits nothing but calls in flight",
            );
        }
    }
    // A policy has limits.
    let policy = ratelimit_runtime::Policy::new(Limit::per_minute(5));
    limiter.set_policies([("export", policy)]).unwrap();
    let rule = EXPORT.with_policy_named("export").with_cost(2);
    let entered = limiter.enter(&rule, &alice()).await.unwrap();
    assert_eq!(entered.decision().remaining(), 3);
}

/// Text of a client may be part of a name, which is repeated in keys, logs, metrics and fields.
#[tokio::test]
async fn a_name_of_more_than_128_bytes_is_misconfigured() {
    let clock = FakeClock::new();
    for limiter in everywhere(&clock) {
        limiter
            .set_policies([(
                "named",
                ratelimit_runtime::Policy::new(Limit::per_minute(5)),
            )])
            .unwrap();
        for (unit, most) in [("n", 128), ("é", 64), (":", 128)] {
            let rule = Rule::named(unit.repeat(most), Limit::per_minute(5));
            let admitted = limiter.acquire(&rule, &alice()).await.unwrap();
            assert_eq!(admitted.rule(), unit.repeat(most));
            for more in [1, 65_536] {
                let rule = Rule::named(unit.repeat(most + more), Limit::per_minute(5));
                for rule in [rule.with_policy_named("named"), rule] {
                    let error = misconfigured(limiter.acquire(&rule, &alice()).await);
                    says(&error, "at most 128 bytes");
                    assert!(error.len() < 1_000, "{error}");
                    assert!(limiter.peek(&rule, &alice()).await.is_err());
                    assert!(limiter.reset(&rule, &alice()).await.is_err());
                    assert!(rule.name().len() < 600, "{}", rule.name());
                }
            }
        }
    }
}

/// The order in which a rule is told of its settings does not matter.
#[tokio::test]
async fn a_lease_may_be_set_before_concurrent() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("export", Limit::per_minute(5))
        .with_lease(MINUTE)
        .with_concurrent(2);
    drop(limiter.enter(&rule, &alice()).await.unwrap());
    let [summary] = &limiter.rules()[..] else {
        panic!("one rule was used")
    };
    assert_eq!(summary.concurrent, Some((2, MINUTE)));
}

/// Calls in vain until another task has run: who does so gets each answer at once.
async fn gives_way(call: &str, mut in_vain: impl AsyncFnMut() -> bool) {
    let (start, other) = (Instant::now(), tokio::spawn(tokio::task::yield_now()));
    while !other.is_finished() {
        assert!(in_vain().await, "{call}");
        assert!(start.elapsed() < MINUTE, "{call}: no other task runs");
    }
}

#[tokio::test]
async fn calls_that_fail_at_once_give_way_to_other_tasks() {
    let (limiter, alice) = (RateLimiter::memory(), alice());
    let (full, places) = (
        Rule::new("full", Limit::per_hour(1)),
        Rule::in_flight("places", 1),
    );
    let both = Rule::new("both", Limit::per_hour(1)).with_concurrent(1);
    let wrong = Rule::new("wrong", Limit::per_hour(1)).with_policy("unknown");
    let none = <[(&Rule, &Key); 0]>::default;
    let admission = limiter.acquire(&full, &alice).await.unwrap();
    let mut keys = limiter.keys(&wrong);
    macro_rules! give_way {
        ($($call:expr),* $(,)?) => {$(
            gives_way(stringify!($call), async || $call.await.is_err()).await;
        )*};
    }
    give_way!(
        limiter.acquire(&both, &alice),
        limiter.acquire_all(none()),
        limiter.reserve(&both, &alice),
        limiter.reserve_all([(&both, &alice)]),
        limiter.peek(&wrong, &alice),
        limiter.enter(&full, &alice),
        limiter.enter_all(none()),
        limiter.in_flight(&full, &alice),
        limiter.reset(&places, &alice),
        limiter.unblock(&places, &alice),
        limiter.refund(&places, &alice, &admission),
        limiter.block(&full, &alice, Duration::ZERO),
        keys.next_page(),
    );
    let peek = async || limiter.peek(&full, &alice).await.unwrap();
    gives_way("peek", async || !peek().await.is_allowed()).await;
}

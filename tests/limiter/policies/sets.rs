//! A set of policies is put in force as a whole, or refused.

use std::time::Duration;

use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, CalendarUnit, Limit, Policy, RateLimiter, Rule};

use super::super::{MINUTE, alice, bob, everywhere};
use crate::support::{misconfigured, says};

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

/// Its calls fail before as after: it must not keep the others' policies from changing.
#[tokio::test]
async fn a_rule_that_its_policy_never_fitted_refuses_no_new_set() {
    let waiting = Rule::new("waiting", Limit::per_minute(1))
        .with_wait(MINUTE)
        .with_policy("plan");
    let login = Rule::new("login", Limit::per_minute(1)).with_policy("login");
    let blocks = Policy::new(Limit::per_minute(2)).with_block(MINUTE);
    for limiter in everywhere(&FakeClock::new()) {
        let set = |plan: &Policy, max| {
            let login = Policy::new(Limit::per_minute(max));
            limiter.set_policies([("plan", plan.clone()), ("login", login)])
        };
        set(&blocks, 3).unwrap();
        let _ = misconfigured(limiter.acquire(&waiting, &alice()).await);
        set(&blocks, 5).unwrap();
        assert_eq!(limiter.acquire(&login, &alice()).await.unwrap().limit(), 5);
        // As wrong as before.
        set(&blocks.clone().with_block(MINUTE * 2), 6).unwrap();
        let _ = misconfigured(limiter.acquire(&waiting, &alice()).await);
        // From now on it works, which a new set must not end.
        set(&Policy::new(Limit::per_minute(2)), 7).unwrap();
        assert!(limiter.acquire(&waiting, &alice()).await.is_ok());
        let error = misconfigured(set(&blocks, 8));
        says(
            &error,
            "the policy `plan`: a call either waits or is blocked",
        );
        assert_eq!(limiter.acquire(&login, &alice()).await.unwrap().limit(), 7);
    }
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

//! `policy`: the limits are the limiter's, and may change while it runs.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::{Limit, Policy, RateLimitError, RateLimiter, rate_limit};
use tokio::time::Instant;

use super::{Failure, MINUTE, Outcome, SECOND, refusal};

#[rate_limit(key = "<who>", policy = "login", limiter = limiter)]
async fn log_in(limiter: &RateLimiter, who: &str) -> Outcome {
    Ok(())
}

#[rate_limit(policy = "login", limiter = limiter, cost = cost, wait = "2s", count = "ok")]
async fn import(limiter: &RateLimiter, cost: u32) -> Outcome {
    Ok(())
}

fn limiter(policy: Policy) -> RateLimiter {
    RateLimiter::builder()
        .policy("login", policy)
        .build()
        .unwrap()
}

async fn admitted(limiter: &RateLimiter) -> usize {
    let mut admitted = 0;
    while log_in(limiter, "alice").await.is_ok() {
        admitted += 1;
    }
    admitted
}

#[tokio::test(start_paused = true)]
async fn cost_wait_and_count_go_with_a_policy() {
    let limiter = limiter(Policy::new(Limit::new(4, SECOND)));
    let start = Instant::now();
    for seconds in [0, 1, 2] {
        assert!(import(&limiter, 3).await.is_ok());
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
    let above = import(&limiter, 5).await;
    assert!(matches!(
        above,
        Err(Failure::Limited(RateLimitError::CostExceedsLimit {
            cost: 5,
            limit: 4,
            ..
        }))
    ));
    assert_eq!(
        admitted(&limiter).await,
        4,
        "functions under one policy have buckets of their own"
    );
}

struct Plan(String);

impl Plan {
    fn policy(&self) -> &str {
        &self.0
    }
}

#[rate_limit(key = "<who>", policy = plan.policy(), limiter = limiter)]
async fn export(limiter: &RateLimiter, who: &str, plan: &Plan) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<who>", policy = plan, limiter = limiter)]
#[rate_limit(policy = format!("all of {plan}"), limiter = limiter)]
async fn stacked(limiter: &RateLimiter, who: &str, plan: String) -> Outcome {
    Ok(())
}

#[rate_limit(policy = plan.ok_or(Failure::Wrong)?, limiter = limiter, count = "ok")]
async fn fallible(limiter: &RateLimiter, plan: Option<Arc<str>>) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_call_may_name_its_own_policy() {
    let (free, gold) = (Plan("free".to_owned()), Plan("gold".to_owned()));
    let limiter = RateLimiter::builder()
        .policy("free", Policy::new(Limit::per_minute(1)))
        .policy("gold", Policy::new(Limit::per_minute(3)))
        .policy("all of gold", Policy::new(Limit::per_minute(2)))
        .build()
        .unwrap();
    assert!(export(&limiter, "alice", &free).await.is_ok());
    assert!(export(&limiter, "alice", &free).await.is_err());
    // The windows are the same, so a user who changes plans keeps the counts.
    for _ in 0..2 {
        assert!(export(&limiter, "alice", &gold).await.is_ok());
    }
    assert_eq!(
        refusal(&export(&limiter, "alice", &gold).await)
            .unwrap()
            .limit(),
        3
    );

    let unknown = export(&limiter, "alice", &Plan("go\nld".repeat(99))).await;
    let Err(Failure::Limited(error @ RateLimitError::Misconfigured(_))) = unknown else {
        panic!("{unknown:?}")
    };
    let error = error.to_string();
    assert!(
        error.contains(r"no policy `go\nldgo\nld") && error.len() < 400,
        "{error}"
    );
    assert!(
        error.contains("only `all of gold`, `free`, `gold`"),
        "{error}"
    );

    for _ in 0..2 {
        assert!(stacked(&limiter, "bob", "gold".to_owned()).await.is_ok());
    }
    assert_eq!(
        refusal(&stacked(&limiter, "carol", "gold".to_owned()).await)
            .unwrap()
            .limit(),
        2
    );

    assert!(fallible(&limiter, Some("free".into())).await.is_ok());
    assert!(refusal(&fallible(&limiter, Some("free".into())).await).is_some());
    assert!(matches!(
        fallible(&limiter, None).await,
        Err(Failure::Wrong)
    ));
    // A policy that a call has named is in use like one that an attribute names.
    assert!(
        limiter
            .set_policies([("free", Policy::new(Limit::per_minute(1)))])
            .is_err()
    );
}

#[rate_limit(key = "<who>", policy = "login", limiter = limiter, shadow)]
async fn observed(limiter: &RateLimiter, who: &str) -> Outcome {
    Ok(())
}

#[rate_limit(
    key = "<who>", policy = "login", limiter = limiter, shadow = shadow, wait = "1h",
    timeout = "1s"
)]
async fn waiting(limiter: &RateLimiter, who: &str, shadow: bool) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_policy_wins_over_the_attribute() {
    let login = || Policy::new(Limit::per_minute(1));
    let limiter = limiter(login());
    for _ in 0..3 {
        assert!(
            observed(&limiter, "alice").await.is_ok(),
            "the attribute's `shadow`"
        );
    }
    limiter
        .set_policies([("login", login().with_shadow(false))])
        .unwrap();
    assert!(observed(&limiter, "alice").await.is_err());
    assert!(log_in(&limiter, "alice").await.is_ok());
    assert!(log_in(&limiter, "alice").await.is_err());
    limiter
        .set_policies([("login", login().with_shadow(true))])
        .unwrap();
    for _ in 0..3 {
        assert!(
            log_in(&limiter, "alice").await.is_ok(),
            "taken out of force without a deploy"
        );
    }

    let start = Instant::now();
    limiter.set_policies([("login", login())]).unwrap();
    for _ in 0..2 {
        assert!(waiting(&limiter, "bob", false).await.is_ok());
    }
    assert_eq!(start.elapsed().as_secs(), 60, "the attribute waits");
    limiter
        .set_policies([("login", login().with_wait(Duration::ZERO))])
        .unwrap();
    assert!(waiting(&limiter, "bob", false).await.is_err());
    limiter
        .set_policies([("login", login().with_wait(2 * MINUTE).with_shadow(false))])
        .unwrap();
    assert!(log_in(&limiter, "bob").await.is_ok());
    assert!(log_in(&limiter, "bob").await.is_ok());
    assert_eq!(start.elapsed().as_secs(), 120, "the policy waits");
    assert!(waiting(&limiter, "bob", true).await.is_ok());
    assert_eq!(start.elapsed().as_secs(), 120, "another function's bucket");
    limiter
        .set_policies([("login", login().with_shadow(true))])
        .unwrap();
    assert!(waiting(&limiter, "bob", false).await.is_ok());
    assert_eq!(
        start.elapsed().as_secs(),
        120,
        "nothing to wait for in shadow mode"
    );
}

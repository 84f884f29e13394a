//! Several rules on one call, and `wait`, where the master changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ratelimit_runtime::{Algorithm, Key, Limit, OnUnavailable, RateLimiter, Rule};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::support::{settled, strict, unique, until};

const USERS: u64 = 5;
const OF_USER: u64 = 4;

fn per_user() -> Rule {
    Rule::new("stack_user", Limit::per_hour(OF_USER))
}

fn of_tenant(max: u64) -> Rule {
    Rule::new("stack_tenant", Limit::per_day(max)).with_algorithm(Algorithm::SlidingCounter)
}

/// All or none, and exactly, by what was counted before a fail-over.
#[tokio::test]
async fn several_rules_are_charged_together_or_not_at_all_before_and_after_a_fail_over() {
    for deployment in [Deployment::sentinel(), Deployment::replicated_cluster()] {
        let builder = strict().redis(&deployment.url()).prefix(unique("stack"));
        let limiter = builder.build().unwrap();
        limiter.ready().await.unwrap();
        let (user, tenant) = (per_user(), of_tenant(1_000_000));
        // On both nodes of a cluster.
        let keys: Vec<Key> = (0..USERS).map(|number| Key::of(&number)).collect();
        let left =
            async |rule: &Rule, key: &Key| limiter.peek(rule, key).await.unwrap().remaining();
        let mut of_tenant = left(&tenant, &keys[0]).await;
        for left_of_user in (0..OF_USER).rev() {
            if left_of_user + 2 == OF_USER {
                settled(&limiter).await;
                deployment.fail_over();
                followed(&limiter, &keys).await;
            }
            for user_key in &keys {
                let calls = [(&user, user_key), (&tenant, &keys[0])];
                let decisions = limiter.acquire_all(calls).await.unwrap();
                assert_eq!(decisions[0].remaining(), left_of_user, "{deployment}");
                settled(&limiter).await;
                of_tenant -= 1;
                assert_eq!(left(&tenant, &keys[0]).await, of_tenant, "{deployment}");
            }
        }
        for user_key in &keys {
            let calls = [(&user, user_key), (&tenant, &keys[0])];
            let RateLimitError::Exceeded(refusal) = limiter.acquire_all(calls).await.unwrap_err()
            else {
                panic!("{deployment}: a refusal")
            };
            assert_eq!(refusal.rule(), "stack_user", "{deployment}");
        }
        assert_eq!(
            left(&tenant, &keys[0]).await,
            of_tenant,
            "{deployment}: not charged"
        );
    }
}

/// Waits until all keys are decided by masters.
async fn followed(limiter: &RateLimiter, keys: &[Key]) {
    let rule = Rule::new("stack_probe", Limit::per_hour(1_000_000));
    for key in keys {
        let is_decided = async || limiter.acquire(&rule, key).await.is_ok();
        until("the new master is followed", PATIENCE, is_decided).await;
    }
}

/// Whatever is lost with the old master is lost of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_loses_a_stack_as_a_whole() {
    const CALLERS: u64 = 8;
    let mut deployment = Deployment::sentinel();
    let builder = RateLimiter::builder()
        .redis(&deployment.url())
        .prefix(unique("stack"));
    let builder = builder.timeout(TIMEOUT).on_unavailable(OnUnavailable::Deny);
    let limiter = builder.build().unwrap();
    limiter.ready().await.unwrap();
    let rules = ["first", "second"].map(|name| Rule::new(name, Limit::per_hour(100_000)));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (limiter, rules, is_over) = (limiter.clone(), rules.clone(), Arc::clone(&is_over));
        callers.spawn(async move {
            let (key, mut admitted) = (Key::of(&caller), 0);
            while !is_over.load(Ordering::Relaxed) {
                let called = limiter
                    .acquire_all(rules.iter().map(|rule| (rule, &key)))
                    .await;
                admitted += u64::from(called.is_ok());
                sleep(Duration::from_millis(1)).await;
            }
            admitted
        });
    }
    sleep(Duration::from_millis(300)).await;
    tokio::task::block_in_place(|| deployment.lose_master());
    sleep(Duration::from_millis(1_500)).await;
    is_over.store(true, Ordering::Relaxed);
    let admitted: u64 = callers.join_all().await.into_iter().sum();
    let mut used = [0, 0];
    for caller in 0..CALLERS {
        for (rule, used) in rules.iter().zip(&mut used) {
            let peeked = limiter.peek(rule, &Key::of(&caller)).await.unwrap();
            *used += peeked.limit() - peeked.remaining();
        }
    }
    println!("{admitted} admitted, of each {used:?} on the new master");
    assert_eq!(used[0], used[1]);
    assert!(used[0] > 0);
}

/// A caller that waits while the master changes is admitted by the new one, not early, and within
/// its time.
async fn waits_during_a_fail_over(deployment: Deployment) {
    const WINDOW: Duration = Duration::from_secs(4);
    let rule = Rule::new("waits", Limit::new(1, WINDOW)).with_wait(2 * WINDOW);
    let builder = RateLimiter::builder()
        .redis(&deployment.url())
        .prefix(unique("wait"));
    let builder = builder.timeout(TIMEOUT).on_unavailable(OnUnavailable::Deny);
    let limiter = builder.build().unwrap();
    limiter.ready().await.unwrap();
    let called = limiter.acquire(&rule, &Key::global()).await.unwrap();
    assert_eq!(called.source(), Source::Store);
    let start = Instant::now();
    let waiting = {
        let (limiter, rule) = (limiter.clone(), rule.clone());
        tokio::spawn(async move { limiter.acquire(&rule, &Key::global()).await })
    };
    sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    deployment.fail_over();
    let took = start.elapsed();
    let called = waiting.await.unwrap().unwrap();
    let waited = start.elapsed();
    println!("{deployment}: failed over within {took:?}, admitted after {waited:?}");
    assert_eq!(called.source(), Source::Store, "{deployment}");
    // The reply to the first call took some of the window.
    assert!(
        waited > WINDOW - Duration::from_millis(50),
        "{deployment}: {waited:?}"
    );
    assert!(
        waited < WINDOW + Duration::from_secs(1),
        "{deployment}: {waited:?}"
    );
}

#[tokio::test]
async fn a_caller_that_waits_during_a_fail_over_is_admitted_when_its_unit_is_free_behind_sentinel()
{
    waits_during_a_fail_over(Deployment::sentinel()).await;
}

#[tokio::test]
async fn a_caller_that_waits_during_a_fail_over_is_admitted_when_its_unit_is_free_on_a_cluster() {
    waits_during_a_fail_over(Deployment::replicated_cluster()).await;
}

/// A call that has no answer may have been charged, and is none that waits. Those after it wait
/// until the server is back.
async fn waits_for_its_server(deployment: Deployment) {
    let (prefix, name) = (unique("away"), "away");
    let rule = Rule::new(name, Limit::new(1_000, HOUR)).with_wait(PATIENCE);
    let key = Key::of(&deployment.number_on(0, &prefix, name));
    let builder = RateLimiter::builder()
        .redis(&deployment.url())
        .prefix(prefix);
    let builder = builder.timeout(TIMEOUT).on_unavailable(OnUnavailable::Deny);
    let limiter = builder.build().unwrap();
    limiter.ready().await.unwrap();
    deployment.server().freeze();
    let call = || {
        let (limiter, rule, key) = (limiter.clone(), rule.clone(), key.clone());
        tokio::spawn(async move { limiter.acquire(&rule, &key).await })
    };
    let mut unanswered = 0;
    let waiting = loop {
        let calls = [call(), call(), call()];
        sleep(TIMEOUT + SLACK).await;
        if calls.iter().all(|call| !call.is_finished()) {
            break calls;
        }
        for call in calls {
            let answer = call.await.unwrap();
            assert!(matches!(answer, Err(RateLimitError::Unavailable(_))));
        }
        unanswered += 3;
        assert!(unanswered < 10, "{deployment}: {unanswered}");
    };
    deployment.server().thaw();
    for call in waiting {
        let admitted = call.await.unwrap().unwrap();
        assert_eq!(admitted.source(), Source::Store, "{deployment}");
    }
    let left = limiter.peek(&rule, &key).await.unwrap().remaining();
    assert!(
        (997 - unanswered..=997).contains(&left),
        "{deployment}: {left}"
    );
}

#[tokio::test]
async fn under_deny_a_call_waits_for_its_server_to_come_back() {
    waits_for_its_server(Deployment::one_server()).await;
    waits_for_its_server(Deployment::cluster()).await;
    waits_for_its_server(Deployment::sentinel()).await;
}

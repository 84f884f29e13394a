//! A service that starts while no sentinel answers, one that rests while the master changes, and
//! the end of a limiter.

use std::time::Instant;

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, Rule};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::*;
use crate::support::redis::RedisServer;
use crate::support::sentinel::Sentinels;
use crate::support::{unique, until};

/// How long the sentinels stay away. Pauses between attempts to connect grow to a second meanwhile.
const AWAY: Duration = Duration::from_millis(2_500);
/// The longest pause and an attempt, of which each sentinel has 0.8 seconds.
const SOON: Duration = Duration::from_secs(2);

/// Keeps calling under each policy while the sentinels are away, and until the store decides.
async fn answered_in_time_and_connected_soon(
    all: &mut Sentinels,
    goes: fn(&mut RedisServer),
    comes: fn(&mut RedisServer),
) {
    all.sentinels.iter_mut().for_each(goes);
    let rule = Rule::new("starting", Limit::per_hour(1_000_000));
    let policies = [
        (OnUnavailable::Local, Some(Source::Fallback)),
        (OnUnavailable::Allow, Some(Source::Nobody)),
        (OnUnavailable::Deny, None),
    ];
    let limiters = policies.map(|(policy, answer)| {
        let builder = RateLimiter::builder()
            .redis(&all.url())
            .prefix(unique("start"));
        let builder = builder.timeout(TIMEOUT).on_unavailable(policy);
        (builder.build().unwrap(), answer)
    });
    let start = Instant::now();
    while start.elapsed() < AWAY {
        for (limiter, answer) in &limiters {
            let start = Instant::now();
            let called = limiter.acquire(&rule, &Key::global()).await;
            // The first calls wait for the first attempt, and those of `allow` are not let through
            // unchecked before it has failed.
            assert!(start.elapsed() < TIMEOUT + SLACK, "{called:?}");
            assert_eq!(source(&called), *answer, "{called:?}");
            if let Err(error) = called {
                assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    comes(&mut all.sentinels[0]);
    for (limiter, _) in &limiters {
        let by_store = async || {
            let called = limiter.acquire(&rule, &Key::global()).await;
            source(&called) == Some(Source::Store)
        };
        let took = until("the store decides", SOON, by_store).await;
        println!("by the store {took:?} after a sentinel answers");
        limiter.ready().await.unwrap();
    }
}

#[tokio::test]
async fn a_service_that_starts_while_all_sentinels_are_down_connects_once_one_answers() {
    let mut all = Sentinels::start(2);
    answered_in_time_and_connected_soon(&mut all, RedisServer::stop, RedisServer::restart).await;
}

#[tokio::test]
async fn a_service_that_starts_while_no_sentinel_replies_connects_once_one_does() {
    let mut all = Sentinels::start(2);
    let (goes, comes) = (
        |server: &mut _| freeze(server),
        |server: &mut _| thaw(server),
    );
    answered_in_time_and_connected_soon(&mut all, goes, comes).await;
    all.sentinels[1].thaw();
}

fn freeze(server: &mut RedisServer) {
    server.freeze();
}

fn thaw(server: &mut RedisServer) {
    server.thaw();
}

/// The first call of a process that has rested is decided by the new master.
async fn rests_during_a_fail_over(mut deployment: Deployment) {
    let rule = Rule::new("resting", Limit::per_hour(3));
    let prefix = unique("rest");
    let builder = RateLimiter::builder()
        .redis(&deployment.url())
        .prefix(prefix.as_str());
    let builder = builder.timeout(Duration::from_secs(1));
    let builder = builder.on_unavailable(OnUnavailable::Deny);
    let limiter = builder.build().unwrap();
    limiter.ready().await.unwrap();
    let key = Key::of(&deployment.number_on(0, &prefix, "resting"));
    let called = limiter.acquire(&rule, &key).await.unwrap();
    assert_eq!(called.remaining(), 2);
    deployment.lose_master();
    sleep(Duration::from_secs(2)).await;
    let called = limiter.acquire(&rule, &key).await;
    assert_eq!(
        source(&called),
        Some(Source::Store),
        "{deployment}: {called:?}"
    );
    assert_eq!(called.unwrap().remaining(), 1, "{deployment}");
}

#[tokio::test]
async fn a_process_that_rests_during_a_fail_over_is_connected_to_the_new_master_behind_sentinel() {
    rests_during_a_fail_over(Deployment::sentinel()).await;
}

#[tokio::test]
async fn a_process_that_rests_during_a_fail_over_is_connected_to_the_new_master_on_a_cluster() {
    rests_during_a_fail_over(Deployment::replicated_cluster()).await;
}

#[tokio::test]
async fn a_limiter_that_is_dropped_leaves_no_task() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let deployments = [
        Deployment::one_server(),
        Deployment::sentinel(),
        Deployment::cluster(),
    ];
    for deployment in deployments {
        let before = tasks();
        let builder = RateLimiter::builder().redis(&deployment.url());
        let limiter = builder.timeout(PATIENCE).build().unwrap();
        limiter.ready().await.unwrap();
        let rule = Rule::new("ends", Limit::per_hour(9));
        for key in 0..9 {
            limiter.acquire(&rule, &Key::of(&key)).await.unwrap();
        }
        assert!(tasks() > before, "{deployment}");
        drop(limiter);
        until("no task is left", PATIENCE, async || tasks() <= before).await;
    }
}

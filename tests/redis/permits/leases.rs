//! Leases: renewed while the process lives, wherever its runtime is, and not when it is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_runtime::__private::{BuiltInStore as _, PermitRequest};
use ratelimit_runtime::clock::{Clock, SystemClock};
use ratelimit_runtime::{RateLimitError, RateLimiter, rate_limit};
use tokio::time::sleep;

use super::{LEASE, acquire, gone, members, on, permit};
use crate::support::proxy::Proxy;
use crate::support::redis::{RedisServer, shared};
use crate::support::{unique, until};

/// Leases are renewed of the first call, and of one that comes when none has been in flight for a
/// while.
#[tokio::test]
async fn a_permit_after_a_pause_is_renewed_like_the_first() {
    let server = shared();
    let (store, key) = (on(server).await, unique("paused"));
    for _ in 0..2 {
        let held = permit(&key, 1);
        assert!(acquire(&store, &held).await.unwrap().is_acquired());
        let ends = members(server, &key)[0].1;
        until("it is renewed", LEASE / 2, async || {
            members(server, &key)[0].1 > ends
        })
        .await;
        store.release_permit(&held);
        gone(server, &key).await;
        // Longer than those who renew look for something to do by themselves.
        sleep(Duration::from_millis(500)).await;
    }
}

/// The call ends before the server has answered to the renewal.
#[tokio::test]
async fn a_permit_that_is_released_while_it_is_renewed_is_free_soon() {
    let (server, key) = (RedisServer::start(), unique("renewing"));
    let (store, lease) = (on(&server).await, Duration::from_secs(4));
    let held = PermitRequest {
        lease,
        ..permit(&key, 1)
    };
    assert!(acquire(&store, &held).await.unwrap().is_acquired());
    server.freeze();
    // It is renewed after a third, and the connection is given up after two seconds.
    sleep(Duration::from_millis(1_700)).await;
    store.release_permit(&held);
    server.thaw();
    gone(&server, &key).await;
}

/// The time of the machine, but for a moment in which it panics.
#[derive(Default)]
struct PanickingClock(AtomicBool);

impl Clock for PanickingClock {
    fn now(&self) -> Duration {
        assert!(!self.0.swap(false, Ordering::Relaxed), "no time");
        SystemClock.now()
    }
}

/// A renewal that ends in a panic is tried again, as one that fails.
#[tokio::test]
async fn a_clock_that_panics_once_loses_no_permit() {
    let (server, clock, key) = (
        shared(),
        Arc::new(PanickingClock::default()),
        unique("panics"),
    );
    let store = server.store().with_clock(Arc::clone(&clock));
    let held = permit(&key, 1);
    assert!(acquire(&store, &held).await.unwrap().is_acquired());
    let ends = members(server, &key)[0].1;
    clock.0.store(true, Ordering::Relaxed);
    until("it is renewed", LEASE, async || {
        members(server, &key)[0].1 > ends
    })
    .await;
    assert!(!clock.0.load(Ordering::Relaxed), "after a panic");
    store.release_permit(&held);
    gone(server, &key).await;
}

/// Renewals are spread over a part of the lease, and those of about the same time share calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_leases_are_renewed_by_few_calls_of_at_most_64() {
    const LEASES: usize = 400;
    let server = RedisServer::start_with(&[
        "--slowlog-log-slower-than",
        "0",
        "--slowlog-max-len",
        "4096",
    ]);
    let (store, keys) = (
        on(&server).await,
        (0..LEASES)
            .map(|key| format!("many:{key}"))
            .collect::<Vec<_>>(),
    );
    let permits: Vec<_> = keys.iter().map(|key| permit(key, 1)).collect();
    for verdict in join_all(permits.iter().map(|permit| acquire(&store, permit))).await {
        assert!(verdict.unwrap().is_acquired());
    }
    // How many keys each call of a script was about, which stands behind the script's name.
    let calls = || -> Vec<usize> {
        let log = server.cli(&["SLOWLOG", "GET", "4096"]);
        let lines: Vec<&str> = log.lines().collect();
        lines
            .windows(3)
            .filter(|line| line[0] == "EVALSHA")
            .map(|line| line[2].parse().unwrap())
            .collect()
    };
    until("all are renewed", LEASE, async || {
        calls().iter().sum::<usize>() >= 2 * LEASES
    })
    .await;
    let calls = calls();
    assert!(
        calls.iter().all(|keys| *keys <= 64) && calls.len() <= LEASES / 3,
        "{calls:?}"
    );
}

/// The call is dropped while the server is frozen, and its permit released: by then it is not
/// known to be held.
#[tokio::test]
async fn a_caller_who_gives_up_takes_no_permit() {
    {
        let server = RedisServer::start();
        let store = server.store();
        store.ready().await.unwrap();
        let key = unique("given_up");
        server.freeze();
        for _ in 0..20 {
            let permit = permit(&key, 1);
            let acquiring = acquire(&store, &permit);
            assert!(!matches!(
                tokio::time::timeout(Duration::from_millis(5), acquiring).await,
                Ok(Ok(_))
            ));
            store.release_permit(&permit);
        }
        server.thaw();
        let start = Instant::now();
        loop {
            let next = permit(&key, 1);
            let is_acquired = acquire(&store, &next)
                .await
                .is_ok_and(|verdict| verdict.is_acquired());
            store.release_permit(&next);
            if is_acquired {
                break;
            }
            assert!(start.elapsed() < LEASE / 2, "a permit stayed held");
            sleep(Duration::from_millis(5)).await;
        }
        gone(&server, &key).await;
    }
}

/// A server that has lost its scripts is sent the call once more, perhaps behind the release.
#[tokio::test]
async fn a_permit_that_is_acquired_behind_its_release_is_free_soon() {
    let server = RedisServer::start();
    let (store, key) = (on(&server).await, unique("behind"));
    server.freeze();
    // Others are on their way, and the last one is never sent.
    let permits: Vec<_> = (0..20).map(|_| permit(&key, 100)).collect();
    for permit in &permits {
        let acquiring = acquire(&store, permit);
        assert!(
            tokio::time::timeout(Duration::from_millis(1), acquiring)
                .await
                .is_err()
        );
        store.release_permit(permit);
    }
    server.thaw();
    store.settled().await.unwrap();
    let last = permits.last().unwrap().id;
    let member = format!(
        "{:016x}.{}.{}",
        last.process,
        last.number,
        LEASE.as_millis()
    );
    let ends = server.now_us() + i64::try_from(LEASE.as_micros()).unwrap();
    assert_eq!(server.cli(&["ZADD", &key, &ends.to_string(), &member]), "1");
    gone(&server, &key).await;
}

/// The connection is lost in the middle of the answer.
#[tokio::test]
async fn a_call_whose_answer_is_lost_takes_no_permit() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let (store, key) = (proxy.store(), unique("lost"));
    store.ready().await.unwrap();
    proxy.cut_replies(1);
    let lost = permit(&key, 1);
    assert!(acquire(&store, &lost).await.is_err());
    store.release_permit(&lost);
    until("the permit is released", LEASE / 2, async || {
        matches!(store.in_flight(permit(&key, 1)).await, Ok(0))
    })
    .await;
}

#[rate_limit(limiter = limiter, name = "short", concurrent = 1, lease = "7s")]
async fn short(limiter: &RateLimiter, left: impl Fn() -> i64) -> Result<i64, RateLimitError> {
    Ok(left())
}

#[rate_limit(limiter = limiter, name = "default", concurrent = 1)]
async fn default(limiter: &RateLimiter, left: impl Fn() -> i64) -> Result<i64, RateLimitError> {
    Ok(left())
}

/// Seen from the body, while the permit is held.
#[tokio::test]
async fn a_permit_has_the_lease_of_its_attribute() {
    let (server, prefix) = (shared(), unique("leases"));
    let builder = RateLimiter::builder().redis(&server.url());
    let limiter = builder.prefix(&prefix).build().unwrap();
    limiter.ready().await.unwrap();
    let left_of = |rule: &str| {
        let pattern = format!("{prefix}*:cc:*{rule}*");
        let stored = server.cli(&["KEYS", &pattern]);
        server.number(&["PTTL", stored.trim()])
    };
    let left = short(&limiter, || left_of("short")).await.unwrap();
    assert!((6_000..=7_001).contains(&left), "{left}");
    let left = default(&limiter, || left_of("default")).await.unwrap();
    assert!((29_000..=30_001).contains(&left), "{left}");
}

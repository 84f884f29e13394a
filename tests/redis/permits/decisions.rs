//! Who gets a permit and who is refused; what is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::__private::{BuiltInStore as _, PermitRequest};
use ratelimit_runtime::{Key, RateLimiter, RedisStore, Rule};
use tokio::task::JoinSet;

use super::{acquire, gone, in_flight, members, on, permit};
use crate::support::redis::{RedisServer, patient, shared};
use crate::support::{cluster, unique};

#[tokio::test]
async fn a_permit_is_stored_as_a_member_that_expires_with_its_lease() {
    let (server, key) = (shared(), unique("rl1:cc:member:"));
    let store = on(server).await;
    let held = permit(&key, 2);
    let before = server.now_us();
    assert_eq!(acquire(&store, &held).await.unwrap().in_flight, 1);
    let id = held.id;
    let [(member, ends)] = &members(server, &key)[..] else {
        panic!("one member")
    };
    assert_eq!(*member, format!("{:016x}.{}.5000", id.process, id.number));
    let lease = ends - before;
    assert!((5_000_000..5_500_000).contains(&lease), "{lease}");
    let left = server.number(&["PTTL", &key]);
    assert!((4_000..=5_001).contains(&left), "{left}");
    store.release_permit(&held);
    // The next one leaves nothing of it behind.
    let next = permit(&key, 1);
    assert!(acquire(&store, &next).await.unwrap().is_acquired());
    assert_eq!(members(server, &key).len(), 1);
    store.release_permit(&next);
    store.release_permit(&next);
    gone(server, &key).await;
    assert_eq!(
        server.number(&["EXISTS", &key]),
        0,
        "the last one that is released takes the key along"
    );
}

/// A policy may shorten the lease of later permits.
#[tokio::test]
async fn a_permit_of_a_shorter_lease_leaves_the_others_as_they_are() {
    let (server, key) = (shared(), unique("leases"));
    let store = on(server).await;
    let (long, short) = (
        PermitRequest {
            lease: Duration::from_secs(60),
            ..permit(&key, 2)
        },
        permit(&key, 2),
    );
    for permit in [&long, &short] {
        assert!(acquire(&store, permit).await.unwrap().is_acquired());
    }
    let left = server.number(&["PTTL", &key]);
    assert!((50_000..=60_001).contains(&left), "{left}");
    for permit in [&long, &short] {
        store.release_permit(permit);
    }
    gone(server, &key).await;
}

/// It stands in the member.
#[tokio::test]
async fn the_lease_of_a_policy_is_in_force() {
    let server = RedisServer::start();
    let policy = "9/1h concurrent 1 lease 10s".parse().unwrap();
    let builder = RateLimiter::builder().redis(&server.url());
    let limiter = builder.policy("leased", policy).build().unwrap();
    let rule = Rule::in_flight("leased", 1).with_policy("leased");
    let rule = rule.with_lease(Duration::from_secs(60));
    let _held = limiter.enter(&rule, &Key::global()).await.unwrap();
    let key = server.cli(&["KEYS", "*:cc:*"]);
    assert!(members(&server, &key)[0].0.ends_with(".10000"));
}

/// A call that ends and one that begins are in order, though nothing waits until the
/// permit of the first is released.
async fn one_after_the_other(store: RedisStore, calls: usize) {
    store.ready().await.unwrap();
    let key = unique("cycles");
    for call in 0..calls {
        let permit = permit(&key, 1);
        assert!(
            acquire(&store, &permit).await.unwrap().is_acquired(),
            "call {call}"
        );
        store.release_permit(&permit);
        if call % 2 == 0 {
            assert_eq!(in_flight(&store, &key).await, 0, "call {call}");
        }
    }
}

#[tokio::test]
async fn a_call_never_finds_the_permit_of_the_one_before_it() {
    one_after_the_other(shared().store(), 500).await;
    one_after_the_other(shared().store().deny_cache(false), 200).await;
    one_after_the_other(cluster::shared().store(), 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_is_never_passed_by_several_stores() {
    const MAX: u64 = 7;
    for url in [shared().url(), cluster::shared().url()] {
        let (key, running) = (unique("many"), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let store = Arc::new(patient(&url));
            store.ready().await.unwrap();
            for _ in 0..24 {
                let (store, key, running) = (Arc::clone(&store), key.clone(), Arc::clone(&running));
                tasks.spawn(async move {
                    let mut acquired = 0_u64;
                    for _ in 0..40 {
                        let permit = permit(&key, MAX);
                        if acquire(&store, &permit).await.unwrap().is_acquired() {
                            acquired += 1;
                            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                            assert!(now <= MAX, "{now} of {MAX} run");
                            tokio::task::yield_now().await;
                            running.fetch_sub(1, Ordering::SeqCst);
                            store.release_permit(&permit);
                        } else {
                            tokio::time::sleep(Duration::from_micros(300)).await;
                        }
                    }
                    acquired
                });
            }
        }
        let acquired: u64 = tasks.join_all().await.into_iter().sum();
        assert!(acquired > 3 * 24, "{acquired} at {url}");
    }
}

//! Permits of calls in flight while slots move and masters fail.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::PermitRequest;
use ratelimit_runtime::RedisStore;
use tokio::time::sleep;

use super::{on, slots};
use crate::support::cluster::RedisCluster;
use crate::support::{unique, until};

const LEASE: Duration = PermitRequest::MIN_LEASE;

fn permit(key: &str) -> PermitRequest {
    PermitRequest {
        lease: LEASE,
        ..PermitRequest::new(key.as_bytes(), 1)
    }
}

async fn is_acquired(store: &RedisStore, permit: &PermitRequest) -> bool {
    store
        .acquire_all(Some(permit.clone()), &[])
        .await
        .unwrap()
        .is_acquired()
}

/// Waits until no call is in flight, but not for leases to end.
async fn released(store: &RedisStore, key: &str) {
    until("the permit is released", LEASE / 2, async || {
        store.in_flight(permit(key)).await.unwrap() == 0
    })
    .await;
}

#[tokio::test]
async fn permits_go_along_with_a_slot_that_moves() {
    let cluster = RedisCluster::start(2, 0);
    let (store, other, key) = (on(&cluster).await, on(&cluster).await, unique("moves"));
    let slot = cluster.slot(key.as_bytes());
    let from = cluster.owner(slot);
    let to = 1 - from;
    let held = permit(&key);
    assert!(is_acquired(&store, &held).await);
    cluster.begin_to_move(slot, from, to);
    assert!(!is_acquired(&other, &permit(&key)).await);
    while cluster.move_keys(slot, from, to, 10) > 0 {}
    // Its key is at the other node, and the slot not yet.
    assert!(!is_acquired(&other, &permit(&key)).await);
    store.release_permit(&held);
    released(&other, &key).await;
    let again = permit(&key);
    assert!(is_acquired(&store, &again).await);
    cluster.end_move(slot, from, to);
    assert!(!is_acquired(&other, &permit(&key)).await);
    // Its lease is renewed where it is now.
    sleep(LEASE + LEASE / 5).await;
    assert!(!is_acquired(&other, &permit(&key)).await);
    store.release_permit(&again);
    released(&other, &key).await;
}

/// A master that does not answer keeps the calls of its own permits waiting, and no others: neither
/// those that are released, nor those that are renewed.
#[tokio::test]
async fn a_frozen_master_delays_no_permit_of_another() {
    const FROZEN: usize = 3_000;
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let (store, other) = (on(&cluster).await, on(&cluster).await);
    let of_first = cluster.slots_of(0);
    let mut of_frozen = (0..)
        .map(|number| permit(&format!("frozen:{number}")))
        .filter(|permit| of_first.contains(&slots::of(&permit.key)));
    let released: Vec<_> = of_frozen.by_ref().take(FROZEN / 2).collect();
    let renewed: Vec<_> = of_frozen.take(FROZEN / 2).collect();
    let all = released.iter().chain(&renewed);
    assert!(
        join_all(all.map(|permit| is_acquired(&store, permit)))
            .await
            .iter()
            .all(|is| *is)
    );
    let [held, cycled] = [0, 1].map(|_| super::key_on(&cluster, 1));
    assert!(is_acquired(&store, &permit(&held)).await);
    cluster.node(0).freeze();
    for permit in &released {
        store.release_permit(permit);
    }
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < LEASE + LEASE / 5 {
        let own = permit(&cycled);
        assert!(is_acquired(&store, &own).await);
        store.release_permit(&own);
        let left = Instant::now();
        // Another process does not carry the releases along.
        while other.in_flight(permit(&cycled)).await.unwrap() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        slowest = slowest.max(left.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    // Some 30 ms of a busy machine; as long as the master was frozen, where they shared a bound.
    assert!(slowest < Duration::from_millis(200), "{slowest:?}");
    assert!(!is_acquired(&other, &permit(&held)).await, "it is renewed");
}

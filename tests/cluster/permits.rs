//! Permits of calls in flight while slots move and masters fail.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::PlaceRequest;
use ratelimit_runtime::RedisStore;
use tokio::time::sleep;

use super::{on, slots};
use crate::support::cluster::RedisCluster;
use crate::support::{unique, until};

const LEASE: Duration = PlaceRequest::MIN_LEASE;

fn place(key: &str) -> PlaceRequest {
    PlaceRequest {
        lease: LEASE,
        ..PlaceRequest::new(key.as_bytes(), 1)
    }
}

async fn is_entered(store: &RedisStore, place: &PlaceRequest) -> bool {
    store.enter(place.clone(), &[]).await.unwrap().is_entered()
}

/// Waits until no call is in flight, but not for leases to end.
async fn left(store: &RedisStore, key: &str) {
    until("the permit leaves", LEASE / 2, async || {
        store.in_flight(place(key)).await.unwrap() == 0
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
    let entered = place(&key);
    assert!(is_entered(&store, &entered).await);
    cluster.begin_to_move(slot, from, to);
    assert!(!is_entered(&other, &place(&key)).await);
    while cluster.move_keys(slot, from, to, 10) > 0 {}
    // Its key is at the other node, and the slot not yet.
    assert!(!is_entered(&other, &place(&key)).await);
    store.leave(&entered);
    left(&other, &key).await;
    let again = place(&key);
    assert!(is_entered(&store, &again).await);
    cluster.end_move(slot, from, to);
    assert!(!is_entered(&other, &place(&key)).await);
    // Its lease is renewed where it is now.
    sleep(LEASE + LEASE / 5).await;
    assert!(!is_entered(&other, &place(&key)).await);
    store.leave(&again);
    left(&other, &key).await;
}

/// A master that does not answer keeps the calls of its own permits waiting, and no others: neither
/// those that leave, nor those that are renewed.
#[tokio::test]
async fn a_frozen_master_delays_no_permit_of_another() {
    const FROZEN: usize = 3_000;
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let (store, other) = (on(&cluster).await, on(&cluster).await);
    let of_first = cluster.slots_of(0);
    let mut of_frozen = (0..)
        .map(|number| place(&format!("frozen:{number}")))
        .filter(|place| of_first.contains(&slots::of(&place.key)));
    let leaving: Vec<_> = of_frozen.by_ref().take(FROZEN / 2).collect();
    let renewed: Vec<_> = of_frozen.take(FROZEN / 2).collect();
    let all = leaving.iter().chain(&renewed);
    assert!(
        join_all(all.map(|place| is_entered(&store, place)))
            .await
            .iter()
            .all(|is| *is)
    );
    let [held, cycled] = [0, 1].map(|_| super::key_on(&cluster, 1));
    assert!(is_entered(&store, &place(&held)).await);
    cluster.node(0).freeze();
    for place in &leaving {
        store.leave(place);
    }
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < LEASE + LEASE / 5 {
        let entered = place(&cycled);
        assert!(is_entered(&store, &entered).await);
        store.leave(&entered);
        let left = Instant::now();
        // Another process does not carry the leaving along.
        while other.in_flight(place(&cycled)).await.unwrap() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        slowest = slowest.max(left.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    // Some 30 ms of a busy machine; as long as the master was frozen, where they shared a bound.
    assert!(slowest < Duration::from_millis(200), "{slowest:?}");
    assert!(!is_entered(&other, &place(&held)).await, "it is renewed");
}

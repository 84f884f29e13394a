//! Places of calls in flight while slots move and masters fail.

use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::PlaceRequest;
use ratelimit_runtime::RedisStore;
use tokio::time::sleep;

use super::on;
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

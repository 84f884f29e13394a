//! The end of a lease: what is left is given back, or drains.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, Store};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{LEASE, MAX, limits, spend, store, stores, used};
use crate::support::redis::shared;
use crate::support::unique;

#[tokio::test]
async fn what_is_left_of_a_lease_is_given_back() {
    // So long that a busy machine looks at it before it ends.
    const LEASE: Duration = Duration::from_secs(1);
    let each = Algorithm::ALL.iter().map(async |&algorithm| {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let (key, limits) = (unique("ahead"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(LEASE);
        let (calls, verdict) = spend(&store, request).await;
        assert!((8..30).contains(&calls), "{algorithm}: {calls}");
        assert_eq!(verdict.remaining, MAX - calls, "{algorithm}");
        let charged = used(&other, request).await;
        assert!(
            charged > calls && charged <= MAX / 4 + calls,
            "{algorithm}: {charged} units are charged for {calls} calls"
        );
        sleep(LEASE + Duration::from_millis(50)).await;
        assert_eq!(used(&other, request).await, calls, "{algorithm}");
    });
    join_all(each).await;
}

/// On threads that stand still until the lease is over, callers come before the task that gives
/// back, and find that more is to be taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_lease_is_given_back_where_threads_stand_still() {
    const ROUNDS: u64 = 4;
    let (store, other) = (Arc::new(store(shared()).await), store(shared()).await);
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindow] {
        let (key, own) = (unique("late"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &own).with_prefetch(LEASE);
        let mut calls = 0;
        for _ in 0..ROUNDS {
            calls += spend(&store, request).await.0;
            let mut tasks = JoinSet::new();
            for _ in 0..2 {
                // Longer than a bucket waits for what is given back.
                tasks.spawn(async { std::thread::sleep(LEASE + Duration::from_millis(50)) });
            }
            for _ in 0..32 {
                let (store, key) = (Arc::clone(&store), key.clone());
                tasks.spawn(async move {
                    let limits = limits();
                    let request = Request::new(key.as_bytes(), algorithm, &limits);
                    let called = store.acquire(request.with_prefetch(LEASE)).await;
                    assert!(called.unwrap().allowed, "{algorithm}");
                });
                calls += 1;
            }
            tasks.join_all().await;
        }
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, calls, "{algorithm}");
    }
}

#[tokio::test]
async fn settled_gives_back_what_is_left_at_once() {
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let (key, limits) = (unique("settled"), limits());
        let lease = Duration::from_secs(10);
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (calls, _) = spend(&store, request).await;
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, calls, "{algorithm}");
    }
}

/// Processes end one after another, as where each is replaced by a new release, and one goes on.
#[tokio::test]
async fn lost_units_of_a_bucket_drain_also_while_another_store_takes_ahead() {
    let (lease, limits) = (
        Duration::from_secs(10),
        [Limit::new(MAX, Duration::from_secs(500))],
    );
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let clock = FakeClock::new();
        let [busy, other] = stores(&clock).await;
        let key = unique("ended");
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let ended: [_; 5] = stores(&clock).await;
        for store in &ended {
            let _ = spend(store, request).await;
        }
        // Half of what drains, and never a pause of a lease.
        for _ in 0..1_000 {
            assert!(busy.acquire(request).await.unwrap().allowed, "{algorithm}");
            tokio::task::yield_now().await;
            clock.advance(lease / 10);
        }
        busy.settled().await.unwrap();
        let used = used(&other, request).await;
        assert!(used < 20, "{algorithm}: {used} units are used");
    }
}

/// A process that stood still gives back late, and other units were taken ahead meanwhile.
#[tokio::test]
async fn what_is_left_is_given_back_also_where_another_store_took_ahead_after_the_lease() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let clock = FakeClock::new();
        let [first, other] = stores(&clock).await;
        let (key, limits) = (unique("late"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (mut spent, _) = spend(&first, request).await;
        for _ in 0..3 {
            clock.advance(lease + Duration::from_millis(30));
            spent += spend(&other, request).await.0;
            other.settled().await.unwrap();
        }
        clock.advance(lease);
        spent += spend(&other, request).await.0;
        first.settled().await.unwrap();
        other.settled().await.unwrap();
        let used = used(&other, request).await;
        // A unit of a bucket drains in 10 seconds.
        let drained = if algorithm.has_burst() { 5 } else { 0 };
        assert!(
            (spent - drained..=spent).contains(&used),
            "{algorithm}: {spent} units were spent, and {used} are used"
        );
    }
}

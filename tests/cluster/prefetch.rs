//! Units that are taken ahead on a Cluster: of keys on every node, and of a slot that moves.

use super::*;

const MAX: u64 = 1_000;
const LEASE: Duration = Duration::from_millis(500);

/// Buckets refill by a unit each 10 seconds.
fn limits() -> [Limit; 1] {
    [Limit::new(MAX, Duration::from_secs(10_000))]
}

/// Calls until some of the units that were taken ahead are spent; gives how many calls it took.
async fn spend(store: &RedisStore, request: Request<'_>) -> u64 {
    for call in 1..200 {
        let verdict = store.acquire(request).await.unwrap();
        assert!(verdict.allowed, "{verdict:?}");
        if verdict.cached {
            return call;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is taken ahead");
}

/// How much of the limit is used.
async fn used(store: &RedisStore, request: Request<'_>) -> u64 {
    MAX - store.peek(request).await.unwrap().remaining
}

#[tokio::test]
async fn keys_of_every_node_are_charged_from_memory_and_a_slot_that_moves_takes_back_what_is_left()
{
    let cluster = RedisCluster::start(3, 0);
    let (store, other) = (on(&cluster).await, on(&cluster).await);
    for &algorithm in Algorithm::ALL {
        let limits = limits();
        let keys = [0, 1, 2].map(|node| key_on(&cluster, node));
        let mut calls = Vec::new();
        for key in &keys {
            let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(LEASE);
            calls.push(spend(&store, request).await);
            assert!(
                used(&other, request).await > calls[calls.len() - 1],
                "{algorithm}"
            );
        }
        let slot = cluster.slot(keys[2].as_bytes());
        cluster.move_slot(slot, 0);
        sleep(LEASE + Duration::from_millis(100)).await;
        for (key, calls) in keys.iter().zip(calls) {
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            assert_eq!(used(&other, request).await, calls, "{algorithm}");
        }
        cluster.move_slot(slot, 2);
    }
}

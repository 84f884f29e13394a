//! Slots that move: calls follow them, and are counted as if nothing had happened.

use std::sync::Arc;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Feature;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// What a store does on a slot that is moving, with a key that is still there and one that is not.
async fn moves(store: RedisStore, cluster: &RedisCluster, algorithm: Algorithm) {
    let limits = [Limit::new(4, HOUR)];
    let there = key_on(cluster, 2);
    let new = key_beside(&there);
    let slot = cluster.slot(there.as_bytes());
    let [of_there, of_new] =
        [&there, &new].map(|key| Request::new(key.as_bytes(), algorithm, &limits));
    let remaining = async |request: &Request<'_>| {
        let verdict = store.acquire(*request).await.unwrap();
        assert!(verdict.allowed);
        verdict.remaining
    };
    assert_eq!(remaining(&of_there).await, 3);
    cluster.begin_to_move(slot, 2, 1);
    assert_eq!(remaining(&of_there).await, 2, "it is still there");
    cluster.node(1).cli(&["SCRIPT", "FLUSH"]);
    for left in [3, 2] {
        assert_eq!(
            remaining(&of_new).await,
            left,
            "it is new, and begins where the slot is going"
        );
    }
    assert_eq!(store.peek(of_new).await.unwrap().remaining, 2);
    while cluster.move_keys(slot, 2, 1, 10) > 0 {}
    assert_eq!(
        (remaining(&of_there).await, remaining(&of_new).await),
        (1, 1),
        "it has moved"
    );
    let admitted = store.acquire(of_there).await.unwrap();
    assert_eq!(admitted.remaining, 0);
    assert!(!store.acquire(of_there).await.unwrap().allowed);
    let has_refunds = store
        .capabilities()
        .supports_feature(algorithm, Feature::Refund);
    if has_refunds {
        assert!(store.refund(of_there, admitted.ticket).await.unwrap());
    }
    cluster.end_move(slot, 2, 1);
    if has_refunds {
        assert_eq!(remaining(&of_there).await, 0);
    }
    assert!(!store.acquire(of_there).await.unwrap().allowed);
    assert!(store.reset(of_there).await.unwrap());
    cluster.move_slot(slot, 2);
}

#[tokio::test]
async fn a_key_is_counted_exactly_while_its_slot_moves() {
    let cluster = RedisCluster::start(3, 0);
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        moves(on(&cluster).await, &cluster, algorithm).await;
    }
    moves(
        on(&cluster).await.mode(RedisMode::Transactions),
        &cluster,
        Algorithm::SlidingWindow,
    )
    .await;
    moves(
        on(&cluster).await.mode(RedisMode::Transactions),
        &cluster,
        Algorithm::FixedWindow,
    )
    .await;
}

/// Its command names no key, so a node that does not have a key any more would count anew instead
/// of saying so.
#[tokio::test]
async fn the_module_redis_cell_is_not_used() {
    let store = on(support::cluster::shared())
        .await
        .mode(RedisMode::RedisCell);
    let limits = [Limit::per_hour(3)];
    let request = Request::new(b"cell", Algorithm::LeakyBucket, &limits);
    assert!(
        !store
            .capabilities()
            .supports_algorithm(Algorithm::LeakyBucket)
    );
    assert_eq!(
        store.supports(&request).unwrap_err().kind(),
        StoreErrorKind::Unsupported
    );
    assert_eq!(
        store.acquire(request).await.unwrap_err().kind(),
        StoreErrorKind::Unsupported
    );
}

#[tokio::test]
async fn keys_of_one_slot_are_decided_together_also_when_some_of_them_have_moved() {
    let cluster = RedisCluster::start(2, 0);
    let store = Arc::new(on(&cluster).await);
    let limit = [Limit::new(5, HOUR)];
    let first = key_on(&cluster, 0);
    let second = key_beside(&first);
    let slot = cluster.slot(first.as_bytes());
    let requests = [request(&first, &limit), request(&second, &limit)];
    assert!(store.decides_together(None, &requests));
    let elsewhere = key_on(&cluster, 1);
    assert!(!store.decides_together(
        None,
        &[request(&first, &limit), request(&elsewhere, &limit)]
    ));
    assert!(
        store
            .acquire_all(None, &requests)
            .await
            .unwrap()
            .is_acquired()
    );

    cluster.begin_to_move(slot, 0, 1);
    assert_eq!(cluster.move_keys(slot, 0, 1, 1), 1);
    // Half here, half there: it is asked again for a while, and nothing was charged.
    let start = Instant::now();
    let error = store.acquire_all(None, &requests).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    let asking = {
        let (store, first, second) = (Arc::clone(&store), first.clone(), second.clone());
        tokio::spawn(async move {
            loop {
                match store
                    .acquire_all(None, &[request(&first, &limit), request(&second, &limit)])
                    .await
                {
                    Ok(verdict) => return verdict.verdicts,
                    Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
                }
            }
        })
    };
    sleep(Duration::from_millis(20)).await;
    while cluster.move_keys(slot, 0, 1, 10) > 0 {}
    let verdicts = asking.await.unwrap();
    assert!(
        verdicts
            .iter()
            .all(|verdict| verdict.allowed && verdict.remaining == 3),
        "{verdicts:?}"
    );
    cluster.end_move(slot, 0, 1);
    assert!(
        store
            .acquire_all(None, &requests)
            .await
            .unwrap()
            .verdicts
            .iter()
            .all(|verdict| verdict.remaining == 2)
    );
}

/// Many callers while all slots of a node go to another one and back: each is decided, and no limit
/// is passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_or_counted_twice_while_slots_move_under_load() {
    const MAX: u64 = 400;
    let cluster = RedisCluster::start(3, 0);
    let store = Arc::new(on(&cluster).await);
    let keys: Vec<String> = (0..4).map(|_| key_on(&cluster, 0)).collect();
    let mut running = tokio::task::JoinSet::new();
    for caller in 0..32 {
        let (store, key) = (Arc::clone(&store), keys[caller % keys.len()].clone());
        running.spawn(async move {
            let mut admitted = 0;
            for _ in 0..100 {
                admitted += u64::from(
                    acquire(&store, &key, Limit::new(MAX, HOUR))
                        .await
                        .unwrap()
                        .allowed,
                );
                sleep(Duration::from_millis(2)).await;
            }
            admitted
        });
    }
    tokio::task::block_in_place(|| {
        for to in [1, 2, 0] {
            for key in &keys {
                cluster.move_slot(cluster.slot(key.as_bytes()), to);
            }
        }
    });
    let admitted: u64 = running.join_all().await.into_iter().sum();
    assert_eq!(admitted, MAX * 4, "{} callers of {} on each key", 8, 100);
    for node in 0..3 {
        let keyspace = cluster.node(node).cli(&["INFO", "keyspace"]);
        let keys = |name: &str| {
            keyspace
                .split_once(name)
                .map(|(_, rest)| rest.split(',').next().unwrap().to_owned())
        };
        assert_eq!(keys("keys="), keys("expires="), "{keyspace}");
    }
}

//! Permits that are dropped elsewhere than where they were acquired.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::RedisStore;
use tokio::runtime::{Builder, Runtime};

use super::{LEASE, acquire, in_time, members, permit};
use crate::support::proxy::Proxy;
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn store(server: &RedisServer) -> Arc<RedisStore> {
    Arc::new(server.store())
}

#[test]
fn a_permit_is_released_from_a_thread_without_a_runtime() {
    let (server, key) = (shared(), unique("thread"));
    let store = store(server);
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let held = permit(&key, 1);
    assert!(
        runtime
            .block_on(acquire(&store, &held))
            .unwrap()
            .is_acquired()
    );
    thread::scope(|scope| scope.spawn(|| store.release_permit(&held)).join().unwrap());
    assert!(in_time(|| members(server, &key).is_empty()));
}

/// Although its own runtime has not sent the release yet.
#[test]
fn a_permit_that_was_released_is_free_on_every_runtime_of_the_process() {
    let (server, key) = (shared(), unique("elsewhere"));
    let (store, runtimes) = (store(server), [runtime(), runtime()]);
    for nth in 0..4 {
        let (own, held) = (&runtimes[nth % 2], permit(&key, 1));
        let verdict = own.block_on(acquire(&store, &held)).unwrap();
        assert!(verdict.is_acquired(), "{nth}");
        store.release_permit(&held);
    }
    let asked = store.in_flight(permit(&key, 1));
    assert_eq!(runtimes[0].block_on(async { asked.await.unwrap() }), 0);
}

/// Its client goes with it: what it held lapses, and other runtimes keep theirs.
#[test]
fn the_permits_of_a_runtime_that_has_ended_are_free_after_the_lease_and_not_before() {
    let (server, key) = (shared(), unique("ended"));
    let store = store(server);
    let (released, open) = (permit(&key, 2), permit(&key, 2));
    let ending = runtime();
    for permit in [&released, &open] {
        assert!(
            ending
                .block_on(acquire(&store, permit))
                .unwrap()
                .is_acquired()
        );
    }
    let ended = Instant::now();
    drop(ending);
    // There is no client to release it by.
    store.release_permit(&released);
    runtime().block_on(async {
        let own = permit(&key, 2);
        assert!(acquire(&store, &own).await.unwrap().is_full);
        while !acquire(&store, &own).await.unwrap().is_acquired() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(ended.elapsed() < 3 * LEASE, "they have not lapsed");
        }
        assert!(ended.elapsed() >= LEASE / 2, "after {:?}", ended.elapsed());
        store.release_permit(&own);
    });
}

#[test]
fn releases_before_the_store_is_dropped_are_still_sent() {
    let (server, key) = (shared(), unique("dropped"));
    runtime().block_on(async {
        let store = server.store();
        let held = permit(&key, 1);
        assert!(acquire(&store, &held).await.unwrap().is_acquired());
        store.release_permit(&held);
        drop(store);
        tokio::time::sleep(Duration::from_millis(200)).await;
    });
    assert!(members(server, &key).is_empty());
}

/// So a process that waits for it before it ends leaves none behind.
#[tokio::test]
async fn settled_waits_until_the_server_has_taken_permits_back() {
    let server = shared();
    let proxy = Proxy::start(server.port()).await;
    let (store, key) = (proxy.store(), unique("settled"));
    store.ready().await.unwrap();
    let held = permit(&key, 1);
    assert!(acquire(&store, &held).await.unwrap().is_acquired());
    proxy.delay(Duration::from_millis(50));
    store.release_permit(&held);
    assert!(!members(server, &key).is_empty(), "it is on its way");
    store.settled().await.unwrap();
    assert!(members(server, &key).is_empty());
}

//! Permits that are dropped elsewhere than where they entered.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::{RedisStore, Store};
use tokio::runtime::{Builder, Runtime};

use super::{LEASE, enter, in_time, members, place};
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn store(server: &RedisServer) -> Arc<RedisStore> {
    Arc::new(RedisStore::new(&server.url()).unwrap())
}

#[test]
fn a_permit_is_left_from_a_thread_without_a_runtime() {
    let (server, key) = (shared(), unique("thread"));
    let store = store(server);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let entered = place(&key, 1);
    assert!(runtime.block_on(enter(&store, entered)).unwrap().is_entered());
    thread::scope(|scope| scope.spawn(|| store.leave(entered)).join().unwrap());
    assert!(in_time(|| members(server, &key).is_empty()));
}

#[test]
fn another_runtime_takes_over_from_one_that_has_ended() {
    let (server, key) = (shared(), unique("ended"));
    let store = store(server);
    let (first, second) = (place(&key, 2), place(&key, 2));
    let ending = runtime();
    for place in [first, second] {
        assert!(ending.block_on(enter(&store, place)).unwrap().is_entered());
    }
    drop(ending);
    // With no runtime at all, this waits for one.
    store.leave(first);
    let other = runtime();
    let own = unique("own");
    other.block_on(async {
        let own = place(&own, 1);
        assert!(enter(&store, own).await.unwrap().is_entered());
        let start = Instant::now();
        while members(server, &key).len() != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(start.elapsed() < LEASE / 2, "it was not left");
        }
        // The second is still open, and is renewed here.
        tokio::time::sleep(LEASE + LEASE / 5).await;
        assert_eq!(members(server, &key).len(), 1);
        store.leave(second);
        store.leave(own);
        while !members(server, &key).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(start.elapsed() < 3 * LEASE, "it was not left");
        }
    });
}

#[test]
fn another_runtime_takes_over_from_one_that_is_not_driven() {
    let (server, key) = (shared(), unique("undriven"));
    let store = store(server);
    let driven = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let own_key = unique("own");
    let own = place(&own_key, 1);
    assert!(driven.block_on(enter(&store, own)).unwrap().is_entered());
    let asleep = runtime();
    let (kept, left) = (place(&key, 2), place(&key, 2));
    for place in [kept, left] {
        assert!(asleep.block_on(enter(&store, place)).unwrap().is_entered());
    }
    store.leave(left);
    assert!(in_time(|| members(server, &key).len() == 1));
    thread::sleep(LEASE + LEASE / 5);
    assert_eq!(members(server, &key).len(), 1, "it is renewed elsewhere");
    // It goes on where it was, when that is driven again.
    asleep.block_on(async {
        store.leave(kept);
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    assert!(members(server, &key).is_empty());
    store.leave(own);
}

#[test]
fn what_was_left_before_the_store_is_dropped_is_still_sent() {
    let (server, key) = (shared(), unique("dropped"));
    runtime().block_on(async {
        let store = RedisStore::new(&server.url()).unwrap();
        let entered = place(&key, 1);
        assert!(enter(&store, entered).await.unwrap().is_entered());
        store.leave(entered);
        drop(store);
        tokio::time::sleep(Duration::from_millis(200)).await;
    });
    assert!(members(server, &key).is_empty());
}

#[tokio::test]
async fn a_store_without_a_runtime_says_so() {
    let store = store(shared());
    let error = thread::spawn(move || {
        let key = unique("none");
        let mut entering = std::pin::pin!(enter(&store, place(&key, 1)));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match entering.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(answer) => answer.unwrap_err(),
            std::task::Poll::Pending => panic!("it waits for a runtime"),
        }
    });
    assert!(error.join().unwrap().message().contains("tokio runtime"));
}

//! One store, used from several runtimes.

use std::sync::Arc;
use std::thread;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{Key, OnUnavailable, RateLimiter, Rule};
use tokio::runtime::Runtime;

use super::*;
use crate::support::cluster::shared;
use crate::support::proxy::Proxy;

/// All runtimes share the map; connections belong to the runtime that uses them, and end with it.
#[test]
fn runtimes_come_and_go() {
    let cluster = shared();
    let store = Arc::new(RedisStore::new(&cluster.url()).unwrap().deny_cache(false));
    let keys: Vec<String> = (0..3).map(|node| key_on(cluster, node)).collect();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (store, keys) = (Arc::clone(&store), keys.clone());
            thread::spawn(move || {
                let mut admitted = 0;
                for _ in 0..5 {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    for key in &keys {
                        let verdict = runtime.block_on(acquire(&store, key, Limit::per_hour(12))).unwrap();
                        admitted += u32::from(verdict.allowed);
                    }
                    // One that ends in the middle of a call.
                    let (store, key) = (Arc::clone(&store), unique("lost"));
                    runtime.spawn(async move { acquire(&store, &key, Limit::per_hour(1)).await });
                    runtime.block_on(tokio::task::yield_now());
                }
                admitted
            })
        })
        .collect();
    let admitted: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(admitted, 36, "12 on each of three nodes");
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime that began to ask for the slots, and is not driven any more.
#[test]
fn another_runtime_asks_for_the_slots_where_one_is_not_driven() {
    let cluster = shared();
    let store = RedisStore::new(&cluster.url()).unwrap().deny_cache(false);
    let (stopped, running) = (runtime(), runtime());
    stopped.block_on(async {
        let mut call = Box::pin(acquire(&store, "key", Limit::per_hour(1)));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        assert!(!polled, "it begins to ask");
    });
    let start = Instant::now();
    running.block_on(async { timeout(PATIENCE, store.ready()).await }).unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    // What was asked long ago takes nothing back.
    stopped.block_on(async { sleep(Duration::from_millis(100)).await });
    let key = key_on(cluster, 0);
    for runtime in [&running, &stopped] {
        assert!(runtime.block_on(acquire(&store, &key, Limit::per_hour(2))).unwrap().allowed);
    }
}

static RULE: Rule = Rule::new("blocked on", Limit::per_hour(1_000));

/// Calls that are answered at once give their runtime no time to ask for the slots.
#[test]
fn slots_are_found_by_callers_who_only_block_on_their_runtime() {
    let cluster = shared();
    let runtime = runtime();
    let proxy = runtime.block_on(async { Proxy::start(cluster.node(0).port()).await });
    proxy.refuse(true);
    let url = format!("redis+cluster://127.0.0.1:{}", proxy.port());
    let limiter = RateLimiter::builder().redis(&url).on_unavailable(OnUnavailable::Allow).build().unwrap();
    let call = || runtime.block_on(limiter.acquire(&RULE, &Key::global())).unwrap();
    for _ in 0..20 {
        assert!(call().is_degraded());
        thread::sleep(Duration::from_millis(20));
    }
    proxy.refuse(false);
    let start = Instant::now();
    while call().is_degraded() {
        assert!(start.elapsed() < PATIENCE, "the slots are never found");
        thread::sleep(Duration::from_millis(20));
    }
}

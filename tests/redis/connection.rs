//! The way to the server: scripts, protocols, runtimes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use super::{MINUTE, acquire, number_of};
use crate::support::eventually;
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};

#[tokio::test]
async fn a_flushed_script_cache_costs_one_more_command_and_no_error() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let (key, limit) = (unique("flush"), Limit::new(100, MINUTE));
    let calls = |command: &str| {
        let stats = server.info("commandstats", &format!("cmdstat_{command}"));
        stats.strip_prefix("calls=").and_then(|s| s.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    for flush in 1..=3 {
        for _ in 0..10 {
            assert!(acquire(&store, &key, limit).await.unwrap().allowed);
        }
        assert_eq!((calls("evalsha"), calls("eval")), (flush * 10, flush));
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    }
}

#[tokio::test]
async fn resp2_works_too() {
    let store = RedisStore::new(&format!("{}?protocol=resp2", shared().url())).unwrap();
    store.ready().await.unwrap();
    let (key, limit) = (unique("resp2"), Limit::new(1, MINUTE));
    assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    assert!(!acquire(&store, &key, limit).await.unwrap().allowed);
}

#[test]
fn each_runtime_has_its_connection_and_takes_it_along() {
    let server = RedisServer::start();
    let store = Arc::new(RedisStore::new(&server.url()).unwrap());
    let (key, limit) = (unique("runtimes"), Limit::new(100, MINUTE));
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // One of them is the one that asks.
    let clients = || number_of(&server.info("clients", "connected_clients")) - 1;

    let (first, second) = (runtime(), runtime());
    for runtime in [&first, &second, &first] {
        assert!(runtime.block_on(acquire(&store, &key, limit)).unwrap().allowed);
    }
    assert_eq!(clients(), 2);
    drop(first);
    assert!(eventually(|| clients() == 1), "the connection of a dead runtime is closed");
    assert!(second.block_on(acquire(&store, &key, limit)).unwrap().allowed);
    for _ in 0..3 {
        assert!(runtime().block_on(acquire(&store, &key, limit)).unwrap().allowed);
    }
    assert!(eventually(|| clients() == 1));
    drop(store);
    assert!(eventually(|| clients() == 0), "the store closes its connections");
    assert_eq!(server.number(&["ZCARD", &key]), 7);
}

#[test]
fn without_a_runtime_the_error_says_so() {
    let store = RedisStore::new("redis://127.0.0.1/").unwrap();
    let limits = [Limit::new(1, MINUTE)];
    let mut answer = store.acquire(Request::new(b"k", Algorithm::SlidingWindow, &limits));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(&mut answer).poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.message().contains("tokio runtime"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_runtime_without_io_is_named_as_the_cause() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = RedisStore::new(&shared().url()).unwrap();
    let error = runtime.block_on(acquire(&store, "k", Limit::new(1, MINUTE))).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.message().contains("enable_all"), "{error}");
}

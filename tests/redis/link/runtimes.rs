//! Each runtime has a connection of its own; and runtimes that are not like others.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::{BuiltInStore as _, Health};
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, Key, Limit, RedisStore, Rule, Store as _};
use tokio::runtime::Builder;

use super::super::{MINUTE, acquire, number_of};
use crate::support::asking::{
    TIMEOUT, ask, connected, connections_since, connections_taken, health,
};
use crate::support::redis::RedisServer;
use crate::support::{eventually, strict, unique};

const LIMITS: [Limit; 1] = [Limit::per_hour(1_000)];

fn request() -> Request<'static> {
    Request::new(b"runtimes", Algorithm::SlidingWindow, &LIMITS)
}

/// A task that blocks its thread keeps the runtime from reading replies, to calls and to PINGs: for
/// longer than a server may take, and than a connection may be silent.
#[tokio::test]
async fn a_runtime_that_stands_still_makes_no_outage() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await;
    let taken = connections_taken(&server);
    for millis in [250, 1_100, 250, 250, 250, 2_500, 250, 250] {
        let blocks = async {
            tokio::task::yield_now().await;
            thread::sleep(Duration::from_millis(millis));
        };
        let (outcome, ()) = tokio::join!(ask(&store, "key", LIMITS[0]), blocks);
        assert!(!outcome.is_unchecked(), "{outcome:?} beside {millis} ms");
    }
    assert_eq!(health(&store), Health::Up);
    assert_eq!(connections_since(&server, taken), 0);
}

/// A PING that such a runtime has not yet sent, or whose answer it has not read, is not late.
#[test]
fn a_runtime_that_runs_only_during_calls_makes_no_outage() {
    let server = RedisServer::start();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(connected(&server.url()));
    let taken = connections_taken(&server);
    for millis in [1_100, 1_100, 2_200, 300] {
        thread::sleep(Duration::from_millis(millis));
        let outcome = runtime.block_on(ask(&store, "key", LIMITS[0]));
        assert!(outcome.is_answered(), "{outcome:?} after {millis} ms");
    }
    assert_eq!(connections_since(&server, taken), 0);
}

#[test]
fn a_runtime_without_io_or_timers_is_a_misconfiguration() {
    let server = RedisServer::start();
    let store = server.store();
    let builder = Builder::new_current_thread;
    let (no_io, no_timers) = (
        builder().enable_time().build(),
        builder().enable_io().build(),
    );
    for runtime in [no_io.unwrap(), no_timers.unwrap()] {
        let ready = runtime.block_on(async { store.ready().await });
        let asked = runtime.block_on(async { store.acquire(request()).await });
        for error in [ready.unwrap_err(), asked.unwrap_err()] {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.message().contains("`enable_all"), "{error}");
        }
    }
    let whole = builder().enable_all().build().unwrap();
    assert!(
        whole
            .block_on(async { store.acquire(request()).await })
            .unwrap()
            .allowed
    );
}

#[test]
fn each_runtime_has_its_connection_and_takes_it_along() {
    let server = RedisServer::start();
    let store = Arc::new(server.store());
    let (key, limit) = (unique("runtimes"), Limit::new(100, MINUTE));
    let runtime = || {
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
    };
    // One of them is the one that asks.
    let clients = || number_of(&server.info("clients", "connected_clients")) - 1;

    let (first, second) = (runtime(), runtime());
    for runtime in [&first, &second, &first] {
        assert!(
            runtime
                .block_on(acquire(&store, &key, limit))
                .unwrap()
                .allowed
        );
    }
    assert_eq!(clients(), 2);
    drop(first);
    assert!(
        eventually(|| clients() == 1),
        "the connection of a dead runtime is closed"
    );
    assert!(
        second
            .block_on(acquire(&store, &key, limit))
            .unwrap()
            .allowed
    );
    for _ in 0..3 {
        assert!(
            runtime()
                .block_on(acquire(&store, &key, limit))
                .unwrap()
                .allowed
        );
    }
    assert!(eventually(|| clients() == 1));
    drop(store);
    assert!(
        eventually(|| clients() == 0),
        "the store closes its connections"
    );
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

/// A runtime that runs only for its calls reads each reply a call later.
#[test]
fn a_server_that_was_slow_is_found_again_by_a_runtime_that_only_runs_calls() {
    for pause in [20, 100, 300].map(Duration::from_millis) {
        let server = RedisServer::start();
        let limiter = strict()
            .redis(&server.url())
            .timeout(TIMEOUT)
            .build()
            .unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (rule, key) = (
            Rule::named("slow", Limit::per_hour(1_000_000)),
            Key::global(),
        );
        let is_answered = || runtime.block_on(limiter.acquire(&rule, &key)).is_ok();
        assert!(is_answered());
        server.freeze();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(700) {
            let _ = is_answered();
            thread::sleep(pause);
        }
        server.thaw();
        let thawed = Instant::now();
        while !is_answered() {
            assert!(
                thawed.elapsed() < Duration::from_secs(3),
                "a call every {pause:?}"
            );
            thread::sleep(pause);
        }
    }
}

/// And would take one step of connecting a call.
#[test]
fn a_server_that_restarted_is_found_again_by_the_next_call_of_such_a_runtime() {
    let mut server = RedisServer::start();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(connected(&server.url()));
    let ask = || runtime.block_on(ask(&store, "key", LIMITS[0]));
    for calls in [1, 2, 3] {
        server.stop();
        for _ in 0..calls {
            assert!(!ask().is_answered());
            thread::sleep(Duration::from_millis(300));
        }
        server.restart();
        // The longest pause between two attempts.
        thread::sleep(Duration::from_secs(1));
        let outcome = ask();
        assert!(outcome.is_answered(), "{outcome:?} after {calls} calls");
    }
}

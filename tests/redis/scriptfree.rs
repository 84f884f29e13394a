//! The Redis store without scripts, on a server that lets its user run none.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod conformance;
mod deaths;
mod fixed_window;
mod lifetimes;
mod sharing;
mod unsupported;

use std::sync::{Arc, LazyLock};
use std::thread;

use crate::support::redis::RedisServer;
use crate::support::unique;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// A server with a user who may run no scripts.
fn without_scripts() -> RedisServer {
    let server = RedisServer::start();
    let user = ["ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-@scripting"];
    assert_eq!(server.cli(&user), "OK");
    server
}

fn url(server: &RedisServer) -> String {
    format!("redis://plain:secret@127.0.0.1:{}/", server.port())
}

static SERVER: LazyLock<RedisServer> = LazyLock::new(without_scripts);

/// A script-free store on the server of all tests here.
fn plain() -> RedisStore {
    RedisStore::new(&url(&SERVER)).unwrap().mode(RedisMode::Transactions).deny_cache(false)
}

/// A store with scripts on the same server.
fn scripted() -> RedisStore {
    RedisStore::new(&SERVER.url()).unwrap().deny_cache(false)
}

async fn ask(store: &RedisStore, key: &str, algorithm: Algorithm, limit: Limit) -> Verdict {
    store.acquire(Request::new(key.as_bytes(), algorithm, &[limit])).await.unwrap()
}

#[tokio::test]
async fn the_user_may_run_no_scripts() {
    let forbidden = RedisStore::new(&url(&SERVER)).unwrap();
    let key = unique("forbidden");
    let limits = [Limit::per_minute(1)];
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    let error = forbidden.acquire(request).await.unwrap_err();
    assert!(error.message().contains("ACL"), "{error}");
    assert!(plain().acquire(request).await.unwrap().allowed);
}

#[tokio::test]
async fn no_script_is_ever_sent() {
    let server = without_scripts();
    let store = RedisStore::new(&url(&server)).unwrap().mode(RedisMode::Transactions);
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
        let key = format!("{algorithm:?}");
        let limits = [Limit::per_minute(2)];
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let first = store.acquire(request).await.unwrap();
        assert!(store.peek(request).await.unwrap().allowed);
        assert!(store.acquire(request).await.unwrap().allowed);
        assert!(!store.acquire(request).await.unwrap().allowed);
        assert!(store.refund(request, first.ticket).await.unwrap());
        assert!(store.reset(request).await.unwrap());
        assert!(!store.reset(request).await.unwrap());
    }
    let seen = server.cli(&["INFO", "commandstats"]);
    assert!(seen.contains("cmdstat_zadd") && seen.contains("cmdstat_bitfield"), "{seen}");
    for command in ["eval", "script", "fcall", "function"] {
        assert!(!seen.contains(&format!("cmdstat_{command}")), "{seen}");
    }
    assert_eq!(server.cli(&["ACL", "LOG"]), "", "nothing was forbidden");
}

/// 4 threads, each with a runtime of its own and 4 tasks, on one key.
fn admitted_by_four_runtimes(algorithm: Algorithm, max: u64, calls: usize) -> u64 {
    let store = Arc::new(plain());
    let key = Arc::<str>::from(unique("hammered"));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (store, key) = (Arc::clone(&store), Arc::clone(&key));
            thread::spawn(move || Runtime::new().unwrap().block_on(four_tasks(store, key, algorithm, max, calls)))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

async fn four_tasks(store: Arc<RedisStore>, key: Arc<str>, algorithm: Algorithm, max: u64, calls: usize) -> u64 {
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (store, key) = (Arc::clone(&store), Arc::clone(&key));
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..calls {
                admitted += u64::from(ask(&store, &key, algorithm, Limit::per_hour(max)).await.allowed);
            }
            admitted
        });
    }
    tasks.join_all().await.into_iter().sum()
}

#[test]
fn four_runtimes_are_admitted_exactly_max() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
        assert_eq!(admitted_by_four_runtimes(algorithm, 300, 50), 300, "{algorithm:?}");
    }
}

#[test]
fn four_runtimes_under_a_limit_are_all_admitted() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
        assert_eq!(admitted_by_four_runtimes(algorithm, 10_000, 25), 400, "{algorithm:?}");
    }
}

//! Limits across processes, across runtimes, and across the death of a process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::thread;
use std::time::Duration;

use crate::support::redis::{RedisServer, shared};
use crate::support::worker::Worker;
use crate::support::{eventually, unique};
use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimitError, RateLimiter, Rule, rate_limit};
use tokio::runtime::{Builder, Runtime};

/// What each of four processes is admitted, with 64 tasks each, all at once.
fn spent_by_four(url: &str, calls: u64, max: u64) -> Vec<u64> {
    let prefix = unique("processes");
    let (calls, max) = (calls.to_string(), max.to_string());
    let mut workers: Vec<_> = (0..4).map(|_| Worker::start(&["spend", url, &prefix, "64", &calls, &max])).collect();
    for worker in &mut workers {
        assert_eq!(worker.line(), "ready");
    }
    workers.iter_mut().for_each(Worker::go);
    workers.iter_mut().map(|worker| worker.line().parse().unwrap()).collect()
}

#[test]
fn four_processes_share_one_limit_on_redis() {
    let admitted = spent_by_four(&shared().url(), 50, 3_000);
    assert_eq!(admitted.iter().sum::<u64>(), 3_000, "{admitted:?}");
    assert!(admitted.iter().all(|&of_one| of_one > 0), "all of them ran at the same time: {admitted:?}");
}

#[test]
fn four_processes_that_stay_under_a_limit_are_all_admitted() {
    let admitted = spent_by_four(&shared().url(), 20, 64 * 20 * 4 + 1);
    assert_eq!(admitted, [64 * 20; 4]);
}

/// Where counting and expiry are two steps, a process that dies in between leaves a key for good.
#[test]
fn a_killed_process_leaves_no_key_without_an_expiry_and_no_permit_too_many() {
    const MAX: usize = 3_000;
    let server = RedisServer::start();
    let (url, prefix) = (server.url(), unique("killed"));
    let keys = || server.cli(&["DBSIZE"]).parse::<u64>().unwrap().max(1);
    let mut seen = 0;
    // Each is killed at some other moment of its work.
    for millis in [1, 3, 7, 15, 30] {
        let before = keys();
        let worker = Worker::start(&["hammer", &url, &prefix, "64", &MAX.to_string()]);
        // A worker's own keys are the sign that it is at work.
        assert!(eventually(|| keys() > before), "the worker writes");
        thread::sleep(Duration::from_millis(millis));
        seen += worker.kill().len();
        assert!(seen <= MAX, "{seen} of {MAX} were admitted");
        assert_keys_expire(&server, 2);
    }
    // The last one is left to itself until the shared key is spent: what the dead were charged
    // stays charged.
    let limiter = RateLimiter::builder().redis(&url).prefix(prefix.as_str()).build().unwrap();
    let rule = Rule::new("hammer", Limit::per_hour(MAX as u64));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let left = || runtime.block_on(limiter.peek(&rule, &Key::of("shared"))).unwrap().remaining();
    let worker = Worker::start(&["hammer", &url, &prefix, "64", &MAX.to_string()]);
    assert!(eventually(|| left() == 0), "{} are left", left());
    thread::sleep(Duration::from_millis(50));
    seen += worker.kill().len();
    assert!(seen <= MAX, "{seen} of {MAX} were admitted");
    assert_keys_expire(&server, 100);
}

/// There are that many keys, and all of them expire.
fn assert_keys_expire(server: &RedisServer, at_least: u64) {
    let keyspace = server.cli(&["INFO", "keyspace"]);
    // db0:keys=65,expires=65,avg_ttl=…
    let field = |name: &str| {
        let (_, rest) = keyspace.split_once(name).unwrap_or_else(|| panic!("there are keys: {keyspace}"));
        rest.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let (keys, expires) = (field("keys="), field("expires="));
    assert!(keys >= at_least, "{keyspace}");
    assert_eq!(keys, expires, "{keyspace}");
}

const MAX: u64 = 120;

#[rate_limit(key = "<id>", window = "1h", max = MAX, name = "installed")]
async fn limited(id: &str) -> Result<(), RateLimitError> {
    let _ = id;
    Ok(())
}

/// How many of 20 calls are admitted; whatever is not a decision fails the test.
async fn twenty(id: &str) -> u64 {
    let mut admitted = 0;
    for _ in 0..20 {
        match limited(id).await {
            Ok(()) => admitted += 1,
            Err(RateLimitError::Exceeded(_)) => {}
            Err(error) => panic!("no decision: {error:?}"),
        }
    }
    admitted
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The installed limiter is the process's, so this is one test, and no other one in this program
/// uses it.
#[test]
fn one_installed_limiter_serves_several_runtimes_one_after_the_other_and_at_once() {
    let server = shared();
    let redis = || {
        let builder = RateLimiter::builder().redis(&server.url()).prefix(unique("installed"));
        builder.timeout(Duration::from_secs(30)).on_unavailable(OnUnavailable::Deny).build().unwrap()
    };
    // Without a limiter there is one in memory, which `install` replaces.
    assert_eq!(current_thread().block_on(twenty("a")), 20);
    redis().install();

    let lasting = multi_thread();
    assert_eq!(lasting.block_on(twenty("a")), 20);
    // A runtime that ends takes its own connection along, and no other.
    let passing = current_thread();
    assert_eq!(passing.block_on(twenty("a")), 20);
    drop(passing);
    assert_eq!(lasting.block_on(twenty("a")), 20);
    // One that ends in the middle of a call.
    let dying = multi_thread();
    let calls: Vec<_> = (0..20).map(|_| dying.spawn(limited("b"))).collect();
    dying.shutdown_background();
    drop(calls);
    assert_eq!(current_thread().block_on(twenty("a")), 20);

    // 40 are left, for 4 runtimes at once.
    let admitted: u64 = thread::scope(|scope| {
        let runtimes = [current_thread, multi_thread, current_thread, multi_thread];
        let threads: Vec<_> =
            runtimes.into_iter().map(|runtime| scope.spawn(move || runtime().block_on(twenty("a")))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, MAX - 80);
    assert_eq!(lasting.block_on(twenty("a")), 0);

    // A later limiter replaces the earlier one.
    redis().install();
    assert_eq!(lasting.block_on(twenty("a")), 20);
}

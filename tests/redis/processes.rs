//! Limits across processes, across runtimes, and across the death of a process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::thread;
use std::time::Duration;

use crate::support::redis::{RedisServer, shared};
use crate::support::worker::Worker;
use crate::support::{eventually, unique};
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RedisMode, RedisStore, Rule, rate_limit,
};
use tokio::runtime::{Builder, Runtime};

/// What processes share.
const MAX: usize = 3_000;

/// Where counting and expiry are two steps, a process that dies in between leaves a key for good.
/// Two at a time, each pair is killed so many milliseconds into its work; the last one is left to
/// itself until the limit is used up. Gives how many admissions the processes have told of.
fn processes(urls: [&str; 2], algorithm: Algorithm, server: &RedisServer, killed_after: &[u64]) -> usize {
    let (prefix, max, name) = (unique("killed"), MAX.to_string(), algorithm.to_string());
    let start = || urls.map(|url| Worker::start(&["hammer", url, &prefix, "8", &max, &name]));
    let killed = |workers: [Worker; 2]| workers.into_iter().map(|worker| worker.kill().len()).sum::<usize>();
    let runtime = current_thread();
    let mode = if urls[0].starts_with("plain+") { RedisMode::Transactions } else { RedisMode::Scripts };
    let store = RedisStore::new(&server.url()).unwrap().mode(mode).deny_cache(false);
    let limiter = RateLimiter::builder().store(store).prefix(prefix.as_str()).build().unwrap();
    let rule = Rule::new("hammer", Limit::per_hour(MAX as u64)).with_algorithm(algorithm);
    let left = || {
        let left = runtime.block_on(limiter.peek(&rule, &Key::of("shared"))).unwrap().remaining();
        usize::try_from(left).unwrap()
    };
    let mut admitted = 0;
    for millis in killed_after {
        let before = expiring_keys(server);
        let workers = start();
        // A worker's own keys are the sign that it is at work.
        assert!(eventually(|| expiring_keys(server) > before), "the workers write");
        thread::sleep(Duration::from_millis(*millis));
        admitted += killed(workers);
        assert!(admitted <= MAX - left(), "{admitted} were admitted, and {} are left of {MAX}", left());
        expiring_keys(server);
    }
    let workers = start();
    assert!(eventually(|| left() == 0), "{} are left", left());
    thread::sleep(Duration::from_millis(50));
    admitted += killed(workers);
    assert!(admitted <= MAX, "{admitted} of {MAX} were admitted");
    expiring_keys(server);
    admitted
}

#[test]
fn processes_share_one_limit() {
    let server = RedisServer::start();
    let (scripts, plain) = (server.url(), format!("plain+{}", server.url()));
    for url in [&scripts, &plain] {
        assert_eq!(processes([url, url], Algorithm::SlidingWindow, &server, &[]), MAX);
    }
}

#[test]
fn killed_processes_leave_no_key_without_an_expiry_and_pass_no_limit() {
    let server = RedisServer::start();
    let (scripts, plain) = (server.url(), format!("plain+{}", server.url()));
    let killed_after = [1, 4, 11, 30];
    processes([&scripts, &scripts], Algorithm::SlidingWindow, &server, &killed_after);
    processes([&plain, &plain], Algorithm::SlidingWindow, &server, &killed_after);
    processes([&plain, &plain], Algorithm::FixedWindow, &server, &killed_after);
}

/// How many keys there are; all of them expire.
pub(crate) fn expiring_keys(server: &RedisServer) -> u64 {
    // db0:keys=65,expires=65,avg_ttl=…
    let keyspace = server.cli(&["INFO", "keyspace"]);
    let field = |name: &str| keyspace.split_once(name)?.1.split(',').next()?.parse::<u64>().ok();
    assert_eq!(field("keys="), field("expires="), "{keyspace}");
    field("keys=").unwrap_or(0)
}

const INSTALLED: u64 = 120;

#[rate_limit(key = "<id>", window = "1h", max = INSTALLED, name = "installed")]
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
    assert_eq!(current_thread().block_on(twenty("a")), 20);

    // 40 are left, for 4 runtimes at once.
    let admitted: u64 = thread::scope(|scope| {
        let runtimes = [current_thread, multi_thread, current_thread, multi_thread];
        let threads: Vec<_> =
            runtimes.into_iter().map(|runtime| scope.spawn(move || runtime().block_on(twenty("a")))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, INSTALLED - 80);
    assert_eq!(lasting.block_on(twenty("a")), 0);

    // A later limiter replaces the earlier one.
    redis().install();
    assert_eq!(lasting.block_on(twenty("a")), 20);
}

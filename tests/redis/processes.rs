//! Limits across processes, across runtimes, and across the death of a process.

use std::thread;
use std::time::{Duration, Instant};

use super::PATIENCE;
use crate::support::redis::{RedisServer, shared};
use crate::support::worker::Worker;
use crate::support::{eventually, unique};
use futures_util::future::join_all;
use ratelimit_runtime::{
    Algorithm, Key, Limit, RateLimitError, RateLimiter, RedisMode, Rule, rate_limit,
};
use tokio::runtime::{Builder, Runtime};

/// What processes share.
const MAX: usize = 3_000;

/// Where counting and expiry are two steps, a process that dies in between leaves a key for good.
/// Two at a time, each pair is killed so many milliseconds into its work; the last one is left to
/// itself until the limit is used up. Gives how many admissions the processes have told of.
fn processes(
    urls: [&str; 2],
    algorithm: Algorithm,
    server: &RedisServer,
    killed_after: &[u64],
) -> usize {
    let (prefix, max, name) = (unique("killed"), MAX.to_string(), algorithm.to_string());
    let start = || urls.map(|url| Worker::start(&["hammer", url, &prefix, "8", &max, &name]));
    let killed = |workers: [Worker; 2]| {
        workers
            .into_iter()
            .map(|worker| worker.kill().len())
            .sum::<usize>()
    };
    let runtime = current_thread();
    let mode = if urls[0].starts_with("plain+") {
        RedisMode::Transactions
    } else {
        RedisMode::Scripts
    };
    let store = server.store().mode(mode).deny_cache(false);
    // However busy the machine is, the store answers, and not the fallback.
    let limiter = RateLimiter::builder()
        .store(store)
        .prefix(prefix.as_str())
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let rule = Rule::new("hammer", Limit::per_hour(MAX as u64)).with_algorithm(algorithm);
    let left = || {
        let left = runtime
            .block_on(limiter.peek(&rule, &Key::of("shared")))
            .unwrap()
            .remaining();
        usize::try_from(left).unwrap()
    };
    let mut admitted = 0;
    for millis in killed_after {
        let before = expiring_keys(server);
        let workers = start();
        // A worker's own keys are the sign that it is at work.
        assert!(
            eventually(|| expiring_keys(server) > before),
            "the workers write"
        );
        thread::sleep(Duration::from_millis(*millis));
        admitted += killed(workers);
        assert!(
            admitted <= MAX - left(),
            "{admitted} were admitted, and {} are left of {MAX}",
            left()
        );
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
        assert_eq!(
            processes([url, url], Algorithm::SlidingWindow, &server, &[]),
            MAX
        );
    }
}

#[test]
fn killed_processes_leave_no_key_without_an_expiry_and_pass_no_limit() {
    let server = RedisServer::start();
    let (scripts, plain) = (server.url(), format!("plain+{}", server.url()));
    let killed_after = [1, 4, 11, 30];
    processes(
        [&scripts, &scripts],
        Algorithm::SlidingWindow,
        &server,
        &killed_after,
    );
    processes(
        [&plain, &plain],
        Algorithm::SlidingWindow,
        &server,
        &killed_after,
    );
    processes(
        [&plain, &plain],
        Algorithm::FixedWindow,
        &server,
        &killed_after,
    );
}

/// Neither process hears of the other: each asks again when a unit is due.
#[tokio::test]
async fn callers_of_two_processes_wait_for_the_same_units() {
    let window = Duration::from_millis(300);
    let rule = Rule::named(unique("waits"), Limit::new(1, window)).with_wait(PATIENCE);
    let url = shared().url();
    let limiters = [(); 2].map(|()| {
        let builder = RateLimiter::builder().redis(&url);
        builder.timeout(PATIENCE).build().unwrap()
    });
    let start = Instant::now();
    let calls = limiters.iter().chain(&limiters).map(async |limiter| {
        let decision = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert!(!decision.is_degraded(), "{decision:?}");
        start.elapsed()
    });
    let mut admitted = join_all(calls).await;
    admitted.sort_unstable();
    for (before, at) in (0..).zip(admitted) {
        assert!(at >= window * before, "after {at:?} of {before} others");
    }
}

/// How many keys there are; all of them expire.
pub(crate) fn expiring_keys(server: &RedisServer) -> u64 {
    // db0:keys=65,expires=65,avg_ttl=…
    let keyspace = server.cli(&["INFO", "keyspace"]);
    let field = |name: &str| {
        keyspace
            .split_once(name)?
            .1
            .split(',')
            .next()?
            .parse::<u64>()
            .ok()
    };
    assert_eq!(field("keys="), field("expires="), "{keyspace}");
    field("keys=").unwrap_or(0)
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The installed limiter is the process's, so this is one test, and no other one in this program
/// uses it.
#[test]
fn a_limiter_that_is_installed_takes_the_place_of_the_one_before() {
    #[rate_limit(window = "1h", max = 1, name = "installed")]
    async fn limited() -> Result<(), RateLimitError> {
        Ok(())
    }

    // Without a limiter there is one in memory, which `install` replaces.
    for _ in 0..3 {
        assert!(current_thread().block_on(limited()).is_ok());
        assert!(
            current_thread().block_on(limited()).is_err(),
            "other runtimes use it, too"
        );
        RateLimiter::memory().install();
    }
}

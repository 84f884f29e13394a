//! The leaky bucket beside redis-cell, the Redis module: as an oracle for the script, and in its
//! place.
//!
//! The module is the one that `RATELIMIT_TEST_REDIS_CELL` names; scripts/redis-cell.sh builds it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, Policy, RateLimiter, RedisMode, RedisStore, Store};
use tokio::task::JoinSet;

const LEAKY: Algorithm = Algorithm::LeakyBucket;

/// One server with the module for all tests here.
fn server() -> &'static RedisServer {
    static SERVER: LazyLock<RedisServer> = LazyLock::new(|| {
        let module = std::env::var("RATELIMIT_TEST_REDIS_CELL").unwrap();
        RedisServer::start_with(&["--loadmodule", &module])
    });
    &SERVER
}

fn cell(server: &RedisServer) -> RedisStore {
    RedisStore::new(&server.url()).unwrap().mode(RedisMode::RedisCell)
}

fn limit(max: u64, seconds: u64, burst: u64) -> Limit {
    Limit::new(max, Duration::from_secs(seconds)).with_burst(burst)
}

async fn ask(store: &RedisStore, key: &str, limit: Limit, cost: u64) -> Verdict {
    store.acquire(Request::new(key.as_bytes(), LEAKY, &[limit]).with_cost(cost)).await.unwrap()
}

/// What the module says when it is asked by hand: limited, limit, remaining, retry after, reset
/// after.
fn throttle(server: &RedisServer, key: &str, limit: Limit, cost: u64) -> [i64; 5] {
    let number = |n: u64| n.to_string();
    let (burst, max, seconds) = (number(limit.capacity() - 1), number(limit.max()), number(limit.window().as_secs()));
    let reply = server.cli(&["CL.THROTTLE", key, &burst, &max, &seconds, &number(cost)]);
    let numbers: Vec<i64> = reply.lines().map(|line| line.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// The script says what the module says, as far as the module says it; its waits are exact and the
/// module's rounded.
fn same(ours: Verdict, theirs: [i64; 5], limit: Limit, context: &str) {
    let context = format!("{ours:?} and {theirs:?} under {limit:?}: {context}");
    let [limited, most, remaining, retry, reset] = theirs;
    assert_eq!(ours.allowed, limited == 0, "{context}");
    assert_eq!(i64::try_from(limit.capacity()).unwrap(), most, "{context}");
    assert_eq!(i64::try_from(ours.remaining).unwrap(), remaining, "{context}");
    // The two are asked one after the other, and the clock runs on.
    let tolerance = Duration::from_millis(100);
    let at_least = |ours: Duration, theirs: i64| {
        let theirs = Duration::from_secs(u64::try_from(theirs).unwrap_or(0));
        assert!(ours + tolerance >= theirs && ours <= theirs + Duration::from_secs(1) + tolerance, "{context}");
    };
    at_least(ours.retry_after().unwrap_or_default(), retry);
    at_least(Duration::from_micros(ours.reset_after_us), reset);
}

/// A few numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// In a burst that is short beside what one call takes to drain, the two agree on everything.
#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn a_burst_is_decided_as_the_module_does() {
    let server = server();
    let script = RedisStore::new(&server.url()).unwrap().deny_cache(false);
    let mut numbers = Numbers(7);
    for (max, seconds) in [(1, 60), (3, 60), (5, 300), (6, 3_600), (24, 86_400), (100, 86_400), (48, 172_800)] {
        for _ in 0..6 {
            let burst = numbers.below(30) + 1;
            let (limit, key) = (limit(max, seconds, burst), unique("burst"));
            let mut costs = Vec::new();
            for _ in 0..12 {
                let cost = numbers.below(burst.min(4)) + 1;
                costs.push(cost);
                let ours = ask(&script, &format!("{key}:script"), limit, cost).await;
                same(ours, throttle(server, &key, limit, cost), limit, &format!("{costs:?}"));
            }
        }
    }
}

/// As time passes, too. A step is compared only where neither the clock nor this machine decides
/// it.
#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn arrivals_over_time_are_decided_as_the_module_does() {
    let server = server();
    let script = RedisStore::new(&server.url()).unwrap().deny_cache(false);
    let mut numbers = Numbers(11);
    let limit = limit(4, 1, 5);
    let unit = 250_000;
    let (mut compared, mut refused) = (0, 0);
    let started = Instant::now();
    'round: while compared < 30 {
        assert!(started.elapsed() < Duration::from_secs(60), "only {compared} steps could be compared");
        let key = unique("arrivals");
        let ours = format!("{key}:script");
        for _ in 0..15 {
            tokio::time::sleep(Duration::from_millis(numbers.below(300))).await;
            // Away from the moment at which another unit has drained.
            let limits = [limit];
            let seen = script.peek(Request::new(ours.as_bytes(), LEAKY, &limits)).await.unwrap();
            let phase = seen.reset_after_us % unit;
            if seen.reset_after_us > 0 && !(70_000..unit - 70_000).contains(&phase) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let cost = numbers.below(3) + 1;
            let asked = Instant::now();
            let verdict = ask(&script, &ours, limit, cost).await;
            let theirs = throttle(server, &key, limit, cost);
            if asked.elapsed() > Duration::from_millis(20) {
                continue 'round;
            }
            same(verdict, theirs, limit, "over time");
            compared += 1;
            refused += u32::from(!verdict.allowed);
        }
    }
    assert!(refused > 3, "{refused} refusals");
}

#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn the_store_says_what_the_module_says() {
    let server = server();
    let (store, key) = (cell(server), unique("store"));
    let rule = limit(6, 60, 3);
    let limits = [rule];
    let request = Request::new(key.as_bytes(), LEAKY, &limits);
    assert!(!store.reset(request).await.unwrap());
    let unused = store.peek(request).await.unwrap();
    assert_eq!((unused.allowed, unused.remaining, unused.reset_after_us), (true, 3, 0));
    for left in [2, 1] {
        let admitted = store.acquire(request).await.unwrap();
        assert_eq!((admitted.allowed, admitted.remaining, admitted.retry_after_us), (true, left, 0));
        assert_eq!(store.peek(request).await.unwrap().remaining, left);
    }
    for cost in [2, 3] {
        let heavy = request.with_cost(cost);
        let (peeked, refused) = (store.peek(heavy).await.unwrap(), store.acquire(heavy).await.unwrap());
        for verdict in [peeked, refused] {
            assert_eq!((verdict.allowed, verdict.remaining), (false, 1), "{verdict:?}");
            let exact = 10_000_000 * (cost - 1);
            assert!((exact - 1_000_000..=exact).contains(&verdict.retry_after_us), "{verdict:?}");
            let raw = throttle(server, &format!("{key}%cell"), rule, cost);
            assert!(verdict.retry_after().unwrap() >= Duration::from_secs(u64::try_from(raw[3]).unwrap()), "{raw:?}");
            assert!(verdict.reset_after_us >= verdict.retry_after_us);
        }
    }
    let zero = store.acquire(request.with_cost(0)).await.unwrap();
    assert_eq!((zero.allowed, zero.remaining, zero.ticket), (true, 1, 0));
    assert!(store.acquire(request).await.unwrap().allowed);
    assert!(!store.acquire(request).await.unwrap().allowed);
    assert_eq!(server.cli(&["EXISTS", &key]), "0", "the script's key is left alone");
    let left: i64 = server.cli(&["PTTL", &format!("{key}%cell")]).parse().unwrap();
    assert!((1..=30_000).contains(&left), "{left}");
    assert!(store.reset(request).await.unwrap());
    assert_eq!(store.peek(request).await.unwrap().remaining, 3);
}

#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn a_client_that_waits_as_told_is_admitted() {
    let server = server();
    let store = cell(server);
    for (max, seconds, burst, cost) in [(7, 1, 2, 1), (10, 1, 4, 3), (20, 3, 5, 2), (3, 1, 1, 1)] {
        let (limit, key) = (limit(max, seconds, burst), unique("wait"));
        let mut refusals = 0;
        for _ in 0..12 {
            let verdict = ask(&store, &key, limit, cost).await;
            if !verdict.allowed {
                refusals += 1;
                tokio::time::sleep(verdict.retry_after().unwrap()).await;
                let again = ask(&store, &key, limit, cost).await;
                assert!(again.allowed, "{verdict:?}, and then {again:?}");
            }
        }
        assert!(refusals > 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn parallel_callers_share_the_bucket() {
    let server = server();
    let (store, key) = (Arc::new(cell(server)), Arc::<str>::from(unique("parallel")));
    let mut calls = JoinSet::new();
    for _ in 0..400 {
        let (store, key) = (Arc::clone(&store), Arc::clone(&key));
        calls.spawn(async move { ask(&store, &key, limit(24, 86_400, 100), 1).await.allowed });
    }
    let admitted = calls.join_all().await.into_iter().filter(|admitted| *admitted).count();
    assert_eq!(admitted, 100);
}

/// The module itself ends the whole server when it is given such a key.
#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn a_key_that_is_not_utf8_does_not_end_the_server() {
    let server = server();
    let store = cell(server);
    let limits = [limit(1, 60, 1)];
    let start = unique("bytes");
    for end in [b"\xff".as_slice(), b"\xfe", b"\xc3\x28"] {
        let key = [start.as_bytes(), end].concat();
        let error = store.acquire(Request::new(&key, LEAKY, &limits)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{end:?}");
    }
    assert!(ask(&store, &format!("{start}\0"), limits[0], 1).await.allowed);
}

#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn it_needs_no_scripts() {
    let server = server();
    assert_eq!(server.cli(&["ACL", "SETUSER", "cellonly", "on", ">pw", "~*", "+@all", "-@scripting"]), "OK");
    let url = format!("redis://cellonly:pw@127.0.0.1:{}/", server.port());
    let store = RedisStore::new(&url).unwrap().mode(RedisMode::RedisCellAndTransactions);
    assert!(ask(&store, &unique("noscripts"), limit(1, 60, 1), 1).await.allowed);
    let policy = Policy::new(limit(1, 60, 1)).with_algorithm(LEAKY);
    assert!(RateLimiter::builder().store(store).policy("login", policy).build().is_ok());
}

#[tokio::test]
async fn what_the_module_cannot_do_is_said() {
    let store = RedisStore::new(&shared().url()).unwrap().mode(RedisMode::RedisCell);
    let key = unique("cannot");
    let fine = [limit(60, 60, 9)];
    let two = [limit(60, 60, 9), limit(600, 3_600, 9)];
    let parts = [Limit::new(3, Duration::from_millis(1_500))];
    let fast = [limit(7_000_001, 7, 9)];
    let request = |limits| Request::new(key.as_bytes(), LEAKY, limits);
    for (request, expected) in [
        (request(two.as_slice()), "several limits"),
        (request(&parts), "whole seconds"),
        (request(&fast), "1,000 a second"),
        (request(&fine).reserving(), "reservations"),
        (request(&fine).with_block(Duration::from_secs(1)), "blocks"),
    ] {
        let error = store.acquire(request).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{expected}: {error}");
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(store.supports(&request).unwrap_err().message(), error.message());
    }
    let together = store.acquire_all(&[request(&fine), request(&fine)]).await.unwrap_err();
    let refund = store.refund(request(&fine), 1).await.unwrap_err();
    let block = store.block(request(&fine), Duration::from_secs(1)).await.unwrap_err();
    let own_clock = RedisStore::new(&shared().url()).unwrap().mode(RedisMode::RedisCell).with_clock(FakeClock::new());
    let clock = own_clock.acquire(request(&fine)).await.unwrap_err();
    for error in [together, refund, block, clock] {
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    }

    // Other algorithms go on as ever; and a server without the module is a mistake, not an outage.
    let other = Request::new(key.as_bytes(), Algorithm::TokenBucket, &fine);
    assert!(store.acquire(other).await.unwrap().allowed);
    let missing = store.acquire(request(&fine)).await.unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::Misconfigured);
    assert!(missing.message().contains("redis-cell"), "{missing}");
}

#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn peek_and_acquire_decide_alike_where_max_does_not_divide_the_window() {
    let server = server();
    let store = cell(server);
    for max in [1, 2, 3, 7, 11, 13, 17, 60, 97] {
        for window in [60, 61, 3_600, 86_400] {
            for used in [0, max / 2, max - 1] {
                let limits = [Limit::new(max, Duration::from_secs(window))];
                let key = unique("cell");
                let request = |cost| Request::new(key.as_bytes(), LEAKY, &limits).with_cost(cost);
                if used > 0 {
                    assert!(store.acquire(request(used)).await.unwrap().allowed);
                }
                let all = request(max - used);
                let (peeked, over) =
                    (store.peek(all).await.unwrap(), store.peek(request((max - used + 1).min(max))).await.unwrap());
                assert_eq!(peeked.remaining, max - used, "{max} per {window} s, {used} used");
                assert_eq!(over.allowed, used == 0, "{max} per {window} s, {used} used: {over:?}");
                assert!(peeked.allowed, "{max} per {window} s, {used} used: {peeked:?}");
                assert!(store.acquire(all).await.unwrap().allowed, "{max} per {window} s, {used} used");
            }
        }
    }
}

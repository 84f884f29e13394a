//! The leaky bucket by redis-cell, the Redis module.
//!
//! The module is the one that `RATELIMIT_TEST_REDIS_CELL` names; scripts/redis-cell.sh builds it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};

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
    server.store().mode(RedisMode::RedisCell)
}

fn limit(max: u64, seconds: u64, burst: u64) -> Limit {
    Limit::new(max, Duration::from_secs(seconds)).with_burst(burst)
}

async fn ask(store: &RedisStore, key: &str, limit: Limit, cost: u64) -> Verdict {
    store
        .acquire(Request::new(key.as_bytes(), LEAKY, &[limit]).with_cost(cost))
        .await
        .unwrap()
}

/// What the module says when it is asked by hand: limited, limit, remaining, retry after, reset
/// after.
fn throttle(server: &RedisServer, key: &str, limit: Limit, cost: u64) -> [i64; 5] {
    let number = |n: u64| n.to_string();
    let (burst, max, seconds) = (
        number(limit.capacity() - 1),
        number(limit.max()),
        number(limit.window().as_secs()),
    );
    let reply = server.cli(&["CL.THROTTLE", key, &burst, &max, &seconds, &number(cost)]);
    let numbers: Vec<i64> = reply.lines().map(|line| line.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn verdicts_are_those_of_the_module() {
    let server = server();
    let (store, key) = (cell(server), unique("store"));
    let rule = limit(6, 60, 3);
    let limits = [rule];
    let request = Request::new(key.as_bytes(), LEAKY, &limits);
    assert!(!store.reset(request).await.unwrap());
    let unused = store.peek(request).await.unwrap();
    assert_eq!(
        (unused.allowed, unused.remaining, unused.reset_after_us),
        (true, 3, 0)
    );
    for left in [2, 1] {
        let admitted = store.acquire(request).await.unwrap();
        assert_eq!(
            (
                admitted.allowed,
                admitted.remaining,
                admitted.retry_after_us
            ),
            (true, left, 0)
        );
        assert_eq!(store.peek(request).await.unwrap().remaining, left);
    }
    for cost in [2, 3] {
        let heavy = request.with_cost(cost);
        let (peeked, refused) = (
            store.peek(heavy).await.unwrap(),
            store.acquire(heavy).await.unwrap(),
        );
        for verdict in [peeked, refused] {
            assert_eq!(
                (verdict.allowed, verdict.remaining),
                (false, 1),
                "{verdict:?}"
            );
            let exact = 10_000_000 * (cost - 1);
            assert!(
                (exact - 1_000_000..=exact).contains(&verdict.retry_after_us),
                "{verdict:?}"
            );
            let raw = throttle(server, &format!("{key}%cell"), rule, cost);
            assert!(
                verdict.retry_after().unwrap()
                    >= Duration::from_secs(u64::try_from(raw[3]).unwrap()),
                "{raw:?}"
            );
            assert!(verdict.reset_after_us >= verdict.retry_after_us);
        }
    }
    let zero = store.acquire(request.with_cost(0)).await.unwrap();
    assert_eq!((zero.allowed, zero.remaining, zero.ticket), (true, 1, 0));
    assert!(store.acquire(request).await.unwrap().allowed);
    assert!(!store.acquire(request).await.unwrap().allowed);
    assert_eq!(
        server.cli(&["EXISTS", &key]),
        "0",
        "the script's key is left alone"
    );
    let left: i64 = server
        .cli(&["PTTL", &format!("{key}%cell")])
        .parse()
        .unwrap();
    assert!((1..=30_000).contains(&left), "{left}");
    assert!(store.reset(request).await.unwrap());
    assert_eq!(store.peek(request).await.unwrap().remaining, 3);
}

#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn retry_after_is_not_too_short_after_a_limit_was_lowered() {
    let (store, key, start) = (cell(server()), unique("lowered"), Instant::now());
    assert!(ask(&store, &key, limit(10, 60, 10), 10).await.allowed);
    // Of the 60 seconds that are used, 6 may stay.
    let limits = [limit(10, 60, 2)];
    let lower = Request::new(key.as_bytes(), LEAKY, &limits);
    for refused in [
        store.acquire(lower).await.unwrap(),
        store.peek(lower).await.unwrap(),
    ] {
        let wait = refused.retry_after().unwrap();
        let exact = Duration::from_secs(54);
        assert!(
            exact <= wait + start.elapsed() && wait <= exact + Duration::from_secs(1),
            "{refused:?}"
        );
    }
}

/// A call that costs nothing is refused while more is used than a limit has.
#[tokio::test]
#[ignore = "needs the module redis-cell, which RATELIMIT_TEST_REDIS_CELL names"]
async fn a_look_at_no_cost_is_refused_as_the_call_is_after_a_limit_was_lowered() {
    let (store, key) = (cell(server()), unique("lowered"));
    for (lower, is_allowed) in [(limit(10, 60, 4), true), (limit(10, 60, 2), false)] {
        assert!(ask(&store, &key, limit(10, 60, 10), 2).await.allowed);
        let limits = [lower];
        let free = Request::new(key.as_bytes(), LEAKY, &limits).with_cost(0);
        assert_eq!(store.acquire(free).await.unwrap().allowed, is_allowed);
        assert_eq!(store.peek(free).await.unwrap().allowed, is_allowed);
    }
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
        let error = store
            .acquire(Request::new(&key, LEAKY, &limits))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{end:?}");
    }
    assert!(
        ask(&store, &format!("{start}\0"), limits[0], 1)
            .await
            .allowed
    );
}

#[tokio::test]
async fn what_the_module_cannot_do_is_unsupported() {
    let store = shared().store().mode(RedisMode::RedisCell);
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
        assert_eq!(
            error.kind(),
            StoreErrorKind::Unsupported,
            "{expected}: {error}"
        );
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(
            store.supports(&request).unwrap_err().message(),
            error.message()
        );
    }
    let rates = [1_000, 1_001, 2_000, 1_000_000, 1_000_001].map(|max| [limit(max, 1, 9)]);
    let are_exact = rates
        .each_ref()
        .map(|limits| store.supports(&request(limits)).is_ok());
    assert_eq!(are_exact, [true, false, true, true, false]);
    assert!(!store.decides_together(None, &[request(&fine), request(&fine)]));
    let refund = store.refund(request(&fine), 1).await.unwrap_err();
    let block = store
        .block(request(&fine), Duration::from_secs(1))
        .await
        .unwrap_err();
    let own_clock = shared()
        .store()
        .mode(RedisMode::RedisCell)
        .with_clock(FakeClock::new());
    let clock = own_clock.acquire(request(&fine)).await.unwrap_err();
    for error in [refund, block, clock] {
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
                let (peeked, over) = (
                    store.peek(all).await.unwrap(),
                    store
                        .peek(request((max - used + 1).min(max)))
                        .await
                        .unwrap(),
                );
                assert_eq!(
                    peeked.remaining,
                    max - used,
                    "{max} per {window} s, {used} used"
                );
                assert_eq!(
                    over.allowed,
                    used == 0,
                    "{max} per {window} s, {used} used: {over:?}"
                );
                assert!(
                    peeked.allowed,
                    "{max} per {window} s, {used} used: {peeked:?}"
                );
                assert!(
                    store.acquire(all).await.unwrap().allowed,
                    "{max} per {window} s, {used} used"
                );
            }
        }
    }
}

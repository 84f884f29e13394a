//! What a check costs the server, and what becomes of errors.

use ratelimit_runtime::Source;
use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::testkit::FaultyStore;

use super::*;

const LIMIT: Limit = Limit::per_minute(1_000_000);

/// A connection per check costs more than the check, and runs out of ports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_checks_use_one_connection() {
    let server = RedisServer::start();
    let (limiter, _) = on_redis(&server);
    let connections = || info(&server, "stats", "total_connections_received");
    let before = connections();
    let rule = Rule::new("connections", LIMIT);
    assert_eq!(burst(&[&limiter], rule, &Key::global(), 5_000).await, 5_000);
    assert_eq!(connections(), before + 2, "one of the limiter, one of the second question");
    assert_eq!(info(&server, "clients", "connected_clients"), 2);
}

/// An error of the store that looks like a refusal tells an innocent caller to slow down, and hides
/// the outage.
#[tokio::test]
async fn an_error_of_the_store_is_never_a_refusal() {
    let mut server = RedisServer::start();
    let (limiter, prefix) = on_redis(&server);
    let rule = Rule::new("errors", Limit::per_minute(1)).with_timeout(Duration::from_millis(500));
    let foreign = Key::of("foreign");
    server.cli(&["SET", &format!("{prefix}:rl1:sw-60s:errors:<foreign>"), "text"]);
    let error = limiter.acquire(&rule, &foreign).await.unwrap_err();
    assert!(matches!(error, RateLimitError::Misconfigured(_)), "{error:?}");
    assert!(error.decision().is_none() && error.retry_after().is_none());

    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let error = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");

    server.stop();
    for _ in 0..5 {
        let error = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
        assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
        assert!(error.decision().is_none() && error.retry_after().is_none());
    }
}

/// A limiter that flips to a memory store of its own after any error starts everybody afresh,
/// twice.
#[tokio::test]
async fn after_an_error_what_was_counted_still_counts() {
    let store = FaultyStore::new(MemoryStore::new().with_clock(FakeClock::new()));
    let limiter = strict().store(store.clone()).build().unwrap();
    let rule = Rule::new("flip", Limit::per_minute(3));
    assert!(admits(&limiter, &rule, &Key::global()).await);
    assert!(admits(&limiter, &rule, &Key::global()).await);
    for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Full, StoreErrorKind::Misconfigured] {
        store.fail_with(kind);
        assert!(limiter.acquire(&rule, &Key::global()).await.is_err(), "{kind:?}");
        store.heal();
        assert_eq!(limiter.peek(&rule, &Key::global()).await.unwrap().remaining(), 1, "{kind:?}");
    }
    assert!(admits(&limiter, &rule, &Key::global()).await);
    assert!(!admits(&limiter, &rule, &Key::global()).await);
}

/// Limiters that fail open always, and at most print something.
#[tokio::test]
async fn what_an_outage_lets_through_is_a_choice_and_says_so() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder().store(store.clone()).build().unwrap();
    store.fail();
    let open = Rule::new("open", Limit::per_minute(1)).with_on_unavailable(OnUnavailable::Allow);
    let decision = limiter.acquire(&open, &Key::global()).await.unwrap();
    assert!(decision.is_degraded());
    assert_eq!(decision.source(), Source::Nobody);
    assert_eq!(decision.remaining(), 0, "nobody knows, so it is not promised");
    let closed = Rule::new("closed", Limit::per_minute(1)).with_on_unavailable(OnUnavailable::Deny);
    assert!(matches!(limiter.acquire(&closed, &Key::global()).await, Err(RateLimitError::Unavailable(_))));
}

/// A repair after a lost script, or a lost key, that lets a call through without counting it.
#[tokio::test]
async fn a_call_that_finds_the_script_gone_is_counted() {
    let server = RedisServer::start();
    let (limiter, _) = on_redis(&server);
    let rule = Rule::new("gone", Limit::per_minute(10));
    for left in (0..10).rev() {
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
        assert_eq!(limiter.acquire(&rule, &Key::global()).await.unwrap().remaining(), left);
    }
    assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    assert!(!admits(&limiter, &rule, &Key::global()).await);
}

/// A log that is trimmed at once stops the server for as long as that takes: 70,000 entries some
/// ten milliseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tens_of_thousands_of_expired_entries_do_not_stall_the_server() {
    const ENTRIES: usize = 70_000;
    const STALL_US: u64 = 5_000;
    let server = RedisServer::start();
    let (limiter, clock, _) = on_redis_with_clock(&server);
    let rule = Rule::new("stall", Limit::per_hour(1_000_000));
    let timed = async |key: &Key| {
        server.cli(&["CONFIG", "RESETSTAT"]);
        assert!(admits(&limiter, &rule, key).await);
        let (calls, micros) = stats_of(&server, "evalsha");
        assert_eq!(calls, 1);
        micros
    };
    // A machine that is busy may stop the server for as long; a real stall would come back every
    // time.
    let (mut all, mut most) = (u64::MAX, u64::MAX);
    for round in 0..2_u32 {
        let (expired, nearly) = (Key::of(&(round, "all")), Key::of(&(round, "most")));
        for key in [&expired, &nearly] {
            assert_eq!(burst(&[&limiter], rule.clone(), key, ENTRIES).await, ENTRIES);
        }
        clock.advance(MINUTE * 30);
        assert!(admits(&limiter, &rule, &nearly).await);
        clock.advance(MINUTE * 31);
        all = all.min(timed(&expired).await);
        let mut longest = 0;
        for _ in 0..100 {
            longest = longest.max(timed(&nearly).await);
        }
        most = most.min(longest);
        assert_eq!(limiter.peek(&rule, &expired).await.unwrap().remaining(), 999_999);
        assert_eq!(limiter.peek(&rule, &nearly).await.unwrap().remaining(), 1_000_000 - 101);
    }
    assert!(all < STALL_US, "a log that has expired took {all} µs");
    assert!(most < STALL_US, "one of the calls on a log that had nearly expired took {most} µs");
}

/// A key that Redis expires by itself is freed at once, on the thread that serves everybody: 11 ms
/// for a log of 100,000. So a `max` above 10,000 is for counters and buckets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_of_ten_thousand_that_expires_by_itself_does_not_stall_the_server() {
    let server = RedisServer::start();
    let (limiter, _) = on_redis(&server);
    server.cli(&["CONFIG", "SET", "latency-monitor-threshold", "1"]);
    let rule = Rule::new("by itself", Limit::new(10_000, Duration::from_secs(5)));
    assert_eq!(burst(&[&limiter], rule, &Key::global(), 10_000).await, 10_000);
    server.cli(&["LATENCY", "RESET"]);
    while server.number(&["DBSIZE"]) > 0 {
        // The server's own clock and its own expiry: nothing here can move them.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let latest = server.cli(&["LATENCY", "HISTORY", "expire-del"]);
    let took: u64 = latest.lines().nth(1).map_or(0, |millis| millis.parse().unwrap());
    assert!(took < 5, "freeing took {took} ms");
}

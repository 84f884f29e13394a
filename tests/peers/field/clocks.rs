//! Whose clock decides, and what callers are told about time.

use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse as _;

use super::*;

/// Where the caller's clock decides, skew between machines admits too much.
#[tokio::test]
async fn the_callers_clock_does_not_decide() {
    let server = RedisServer::start();
    let prefix = unique("field");
    let limiter = || strict().redis(&server.url()).prefix(prefix.as_str()).build().unwrap();
    let rule = Rule::new("skew", Limit::per_minute(2));
    let (one, two) = (limiter(), limiter());
    assert!(admits(&one, &rule, &Key::global()).await);

    server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let before = server_time(&server);
    assert!(admits(&two, &rule, &Key::global()).await);
    let after = server_time(&server);
    let sent = server.cli(&["SLOWLOG", "GET", "-1"]);
    server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);

    // What was sent, up to the address of the sender, holds no time in milliseconds or
    // microseconds.
    let call = sent.lines().skip_while(|line| !line.starts_with("EVAL"));
    let call: Vec<_> = call.take_while(|line| !line.starts_with("127.0.0.1:")).collect();
    assert!(call.len() > 3, "{sent}");
    assert!(!call.iter().any(|argument| argument.parse::<f64>().is_ok_and(|number| number > 1e12)), "{call:?}");
    let logged = server.cli(&["ZRANGE", &format!("{prefix}:rl1:sw-60s:skew:"), "-1", "-1"]);
    assert!((before..=after).contains(&logged.parse().unwrap()), "{before} <= {logged} <= {after}");

    // The process believes that an hour has passed; the server knows better.
    tokio::time::pause();
    tokio::time::advance(MINUTE * 60).await;
    tokio::time::resume();
    for limiter in [&one, &two] {
        assert!(!admits(limiter, &rule, &Key::global()).await);
    }
}

fn server_time(server: &RedisServer) -> u64 {
    let time = server.cli(&["TIME"]);
    let (seconds, micros) = time.split_once('\n').unwrap();
    seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap()
}

/// Managed services that refuse `TIME` in scripts need a clock of the client's.
#[tokio::test]
async fn a_server_that_refuses_time_in_scripts_works_with_a_client_clock() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-time"]), "OK");
    let url = format!("redis://app:pw@127.0.0.1:{}/", server.port());
    let rule = Rule::new("time", Limit::per_minute(1));

    let refused = strict().redis(&url).build().unwrap().acquire(&rule, &Key::global()).await;
    assert!(matches!(refused, Err(RateLimitError::Misconfigured(_))), "{refused:?}");

    let store = RedisStore::new(&url).unwrap().with_clock(FakeClock::new());
    let limiter = strict().store(store).build().unwrap();
    assert!(admits(&limiter, &rule, &Key::global()).await);
    assert!(!admits(&limiter, &rule, &Key::global()).await);
}

/// A wait that is rounded down makes the client come too early and be refused again.
#[tokio::test]
async fn whoever_waits_as_long_as_told_is_admitted_and_not_a_microsecond_earlier() {
    for (limiter, clock) in both() {
        let rule = Rule::new("wait", Limit::new(3, Duration::from_millis(60_007)));
        for wait in [1, 999, 1_000, 1_001, 19_999_999] {
            while admits(&limiter, &rule, &Key::global()).await {
                clock.advance(Duration::from_micros(wait));
            }
            let told = retry_after(&limiter, &rule, &Key::global()).await;
            clock.advance(told - MICROSECOND);
            assert!(!admits(&limiter, &rule, &Key::global()).await, "{told:?} minus a microsecond");
            assert_eq!(retry_after(&limiter, &rule, &Key::global()).await, MICROSECOND);
            clock.advance(MICROSECOND);
            assert!(admits(&limiter, &rule, &Key::global()).await, "{told:?}");
        }
    }
}

/// The same in whole seconds, as the header has them: 59.000001 seconds are 60.
#[tokio::test]
async fn the_retry_after_header_is_rounded_up() {
    for (limiter, clock) in both() {
        let rule = Rule::new("header", Limit::per_minute(1));
        assert!(admits(&limiter, &rule, &Key::global()).await);
        clock.advance(Duration::from_micros(999_999));
        let error = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_micros(59_000_001)));
        assert_eq!(error.to_string(), "too many requests, try again in 60s");
        let response = error.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "60");
    }
}

/// `seconds * 1000` overflows 32 bits from 25 days on, `* 1000000` from 36 minutes on.
#[tokio::test]
async fn windows_of_25_and_366_days_do_not_overflow() {
    let server = shared();
    let day = MINUTE * 60 * 24;
    for days in [25, 366] {
        let window = day * days;
        let rule = Rule::named(format!("{days} days"), Limit::new(1, window));
        for (limiter, clock) in both() {
            assert!(admits(&limiter, &rule, &Key::global()).await);
            assert_eq!(retry_after(&limiter, &rule, &Key::global()).await, window);
            clock.advance(window - MICROSECOND);
            assert!(!admits(&limiter, &rule, &Key::global()).await, "{days} days");
            clock.advance(MICROSECOND);
            assert!(admits(&limiter, &rule, &Key::global()).await, "{days} days");
        }
        let (limiter, prefix) = on_redis(server);
        assert!(admits(&limiter, &rule, &Key::global()).await);
        let stored = format!("{prefix}:rl1:sw-{}s:{days} days:", window.as_secs());
        let ttl = Duration::from_millis(u64::try_from(server.number(&["PTTL", &stored])).unwrap());
        // Redis counts milliseconds, and the one in which the window ends is not over.
        assert!(ttl > window - MINUTE && ttl <= window + Duration::from_millis(1), "{ttl:?} of {window:?}");
    }
}

/// An expiry that is set in a second step, or only once, leaves keys that never expire.
#[tokio::test]
async fn every_write_leaves_a_key_that_expires() {
    let server = shared();
    let (limiter, clock, prefix) = on_redis_with_clock(server);
    let rule = Rule::new("expires", Limit::per_minute(4));
    let stored = format!("{prefix}:rl1:sw-60s:expires:");
    for call in 0..40_u32 {
        let _ = limiter.acquire(&rule, &Key::global()).await;
        let ttl = server.number(&["PTTL", &stored]);
        // That of a log in use is written rarely, for up to two windows; a second longer by the
        // caller's clock.
        assert!((1..=121_001).contains(&ttl), "{ttl} ms are left after call {call}");
        // A refusal, an admission beside others, one that trims, and one that starts the log anew.
        clock.advance(MINUTE / 7 * (call % 9));
    }
    // Somebody took the expiry away: the next admission puts it back.
    clock.advance(MINUTE / 2);
    limiter.reset(&rule, &Key::global()).await.unwrap();
    assert!(admits(&limiter, &rule, &Key::global()).await);
    assert_eq!(server.number(&["PERSIST", &stored]), 1);
    assert!(admits(&limiter, &rule, &Key::global()).await);
    assert!((1..=121_001).contains(&server.number(&["PTTL", &stored])));
}

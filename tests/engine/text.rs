//! Rules, limits and keys as text; errors as people read them.

use std::error::Error as _;
use std::time::Duration;

use ratelimit_runtime::store::StoreError;
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, Policy, RateLimitError, RateLimiter, Rule, key,
};

#[test]
fn limits_read_back_as_they_are_written() {
    for (text, max, window) in [
        ("5/1m", 5, Duration::from_secs(60)),
        ("5/90s", 5, Duration::from_secs(90)),
        ("5/36h", 5, Duration::from_secs(129_600)),
        ("1/1500ms", 1, Duration::from_millis(1500)),
        ("7/1001us", 7, Duration::from_micros(1001)),
        ("100/1d", 100, Duration::from_secs(86_400)),
    ] {
        let limit: Limit = text.parse().unwrap();
        assert_eq!(
            (limit, limit.to_string().as_str()),
            (Limit::new(max, window), text)
        );
    }
    assert_eq!(
        "1_000 / 1h 30m".parse::<Limit>().unwrap(),
        Limit::new(1000, Duration::from_secs(5400))
    );
    assert_eq!(format!("{:>8}|", Limit::per_minute(5)), "    5/1m|");
}

#[test]
fn a_limit_that_cannot_be_is_an_error_at_run_time() {
    let fault = |window| Limit::try_new(1, window).unwrap_err().to_string();
    assert_eq!(
        fault(Duration::from_micros(999)),
        "the window of a limit is at least one millisecond"
    );
    assert_eq!(
        fault(Limit::MAX_WINDOW + Duration::from_micros(1)),
        "the window of a limit is at most 366 days"
    );
    assert_eq!(
        Limit::try_new(1, Limit::MAX_WINDOW).map(|limit| limit.max()),
        Ok(1)
    );
}

#[test]
fn algorithms_and_answers_to_outages_read_back_as_they_are_written() {
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
    }
    let unknown = "gcra".parse::<Algorithm>().unwrap_err().to_string();
    assert!(
        unknown.starts_with("unknown algorithm \"gcra\": write sliding_window, "),
        "{unknown}"
    );
    for answer in [
        OnUnavailable::Local,
        OnUnavailable::Allow,
        OnUnavailable::Deny,
    ] {
        assert_eq!(answer.to_string().parse(), Ok(answer));
    }
    assert_eq!(OnUnavailable::default(), OnUnavailable::Local);
}

#[test]
#[allow(clippy::too_many_lines, reason = "two tables")]
fn a_policy_is_one_line_of_text() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let login = Policy::new(Limit::per_minute(5)).and(Limit::new(50, minutes(90)));
    let upload =
        Policy::new(Limit::per_second(1_000).with_burst(50)).with_algorithm(Algorithm::LeakyBucket);
    for (text, policy) in [
        ("5/1m, 50/1h 30m", login.clone()),
        (
            " 5/1m,50/1h 30m\tblock\n1h 1m ",
            login.clone().with_block(minutes(61)),
        ),
        (
            "sliding_counter 5/1m, 50/1h 30m",
            login.with_algorithm(Algorithm::SlidingCounter),
        ),
        ("leaky_bucket 1_000/1s burst 5_0", upload.clone()),
        (
            "leaky_bucket  1000/1s  burst 50  block 10m",
            upload.clone().with_block(minutes(10)),
        ),
        (
            "leaky_bucket 1000/1s burst 50 wait 1m 1s",
            upload.with_wait(Duration::from_secs(61)),
        ),
        (
            "5/1m block 1m timeout 50ms on_unavailable deny shadow",
            Policy::new(Limit::per_minute(5))
                .with_block(minutes(1))
                .with_timeout(Duration::from_millis(50))
                .with_on_unavailable(OnUnavailable::Deny)
                .with_shadow(true),
        ),
        (
            "5/1m shadow false",
            Policy::new(Limit::per_minute(5)).with_shadow(false),
        ),
        (
            "5/1m shadow block 1m",
            Policy::new(Limit::per_minute(5))
                .with_shadow(true)
                .with_block(minutes(1)),
        ),
        (
            "5/1m block 1m..1h",
            Policy::new(Limit::per_minute(5)).with_growing_block(minutes(1), minutes(60)),
        ),
        (
            "5/1m block 1h 30m..2 days",
            Policy::new(Limit::per_minute(5)).with_growing_block(minutes(90), minutes(2880)),
        ),
        (
            "5/1m block 1us..366d",
            Policy::new(Limit::per_minute(5))
                .with_growing_block(Duration::from_micros(1), Limit::MAX_WINDOW),
        ),
        (
            "5/1m wait 0s",
            Policy::new(Limit::per_minute(5)).with_wait(Duration::ZERO),
        ),
        (
            "5/1m prefetch 1s 200ms wait 1s",
            Policy::new(Limit::per_minute(5))
                .with_prefetch(Duration::from_millis(1_200))
                .with_wait(Duration::from_secs(1)),
        ),
        (
            "5/1m block 1m prefetch 0s",
            Policy::new(Limit::per_minute(5))
                .with_block(minutes(1))
                .with_prefetch(Duration::ZERO),
        ),
    ] {
        assert_eq!(text.parse(), Ok(policy), "{text}");
    }
    for (text, why) in [
        ("", "a limit is `max/window`"),
        ("fixed_window", "a limit is `max/window`"),
        (
            "gcra 5/1m",
            "unknown algorithm \"gcra\": write sliding_window",
        ),
        (
            "5/1m fixed_window",
            "unknown option `fixed_window`: an algorithm stands before the limits",
        ),
        ("5/1m burst 9", "`sliding_window` has no burst"),
        ("token_bucket 5/1m, 9/1h burst 9", "goes with one limit"),
        ("token_bucket 5/1m burst", "`burst` has no value"),
        (
            "token_bucket 5/1m burst many",
            "`many` is not a number of calls",
        ),
        ("token_bucket 5/1m burst 0", "refuses every call"),
        (
            "token_bucket 5/1m burst 9 burst 8",
            "`burst` is given twice",
        ),
        ("5/1m wait", "`wait` has no value behind it"),
        ("5/1m shadow yes", "write `shadow`, or `shadow false`"),
        ("5/1m wait 2s shadow", "`wait` is never used"),
        ("5/1m block 1m wait 2s", "either waits or is blocked"),
        ("5/1m prefetch", "`prefetch` has no value behind it"),
        ("5/1m prefetch 1201ms", "write at most \"1200ms\""),
        ("5/400ms prefetch 10ms", "no window may be below 500ms"),
        ("5/1m prefetch 9ms", "from \"10ms\" to \"10s\""),
        ("5/1m block 1m prefetch 1s", "would block the innocent"),
        ("5/1m timeout 61s", "from \"1ms\" to \"60s\""),
        ("5/1m tmeout 1s", "unknown option `tmeout`"),
        (
            "5/1m on_unavailable open",
            "unknown answer \"open\": write local, allow, deny",
        ),
        ("5/1m block 0s", "the block `0s` is out of bounds"),
        ("5/1m block 367d", "at most \"366d\""),
        (
            "5/1m block 1h..1m",
            "the block `1h..1m` does not grow: write one such as \"1m..1h\"",
        ),
        ("5/1m block 60s..1m", "does not grow"),
        ("5/1m block 1m..367d", "at most to \"366d\""),
        ("5/1m block 1m..=1h", "`=1h` is not a duration"),
        ("5/1m, 50/1d, ", "a limit is `max/window`"),
        ("5/1m;50/1d", "`1m;50/1d` is not a duration"),
        ("60s/3", "`60s` is not a number of calls"),
        ("0/1m", "a limit of 0 refuses every call"),
        (
            "5/m",
            "`m` is not a duration: write whole numbers with units",
        ),
        ("5/60", "`60` is not a duration"),
        ("5/1 month", "(units: `us`, `ms`, `s`, `m`, `h`, `d`, `w`)"),
        ("5/1.5h", "`1.5h` is not a duration"),
        ("5/999999999999w", "is not a duration"),
    ] {
        let error = text.parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_key_that_is_read_back_from_its_text_reaches_the_same_bucket() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("tool", Limit::per_hour(3));
    let (tenant, email) = ("a<b>{c}%", "x@y.z");
    let by_value = key!("<tenant>/<email>");
    let _ = limiter.acquire(&rule, &by_value).await.unwrap();
    let read = Key::from_rendered(std::str::from_utf8(by_value.as_bytes()).unwrap()).unwrap();
    assert_eq!(limiter.peek(&rule, &read).await.unwrap().remaining(), 2);
    for text in ["<a", "a>", "<<a>>", "<{a}>", "<a\n>", "{a}"] {
        assert!(Key::from_rendered(text).is_err(), "{text:?}");
    }
    assert_eq!(Key::from_rendered("").unwrap(), Key::global());
}

#[test]
fn no_error_repeats_its_source() {
    let cause =
        || StoreError::unavailable("no connection").with_source(std::io::Error::other("refused"));
    let mut errors: Vec<RateLimitError> = vec![RateLimitError::Unavailable(cause())];
    errors.push(RateLimitError::Misconfigured(
        StoreError::misconfigured("a typo").with_source(std::io::Error::other("why")),
    ));
    for error in errors {
        let mut said = error.to_string();
        let mut source = error.source();
        while let Some(next) = source {
            assert!(
                !said.contains(&next.to_string()),
                "{said:?} repeats {next:?}"
            );
            said = next.to_string();
            source = next.source();
        }
    }
}

/// As `main` prints it, which returns it.
#[test]
fn an_error_that_leaves_main_is_readable() {
    let cause = std::io::Error::other("connection refused");
    let error = StoreError::unavailable("Redis cannot be reached").with_source(cause);
    assert_eq!(
        format!("{:?}", RateLimitError::from(error)),
        "the rate limiter is unavailable\n  caused by: Redis cannot be reached\n  caused by: \
         connection refused"
    );
    let wrong = StoreError::misconfigured("policies.toml: line 1:\n  |\n1 | limits = 3");
    assert_eq!(
        format!("{:?}", RateLimitError::from(wrong)),
        "the rate limiter is misconfigured: policies.toml: line 1:\n  |\n1 | limits = 3"
    );
}

#[test]
fn no_debug_output_shows_a_key() {
    struct Spy(std::cell::RefCell<String>);
    impl ratelimit_runtime::KeyPart for Spy {
        fn write_key(&self, key: &mut ratelimit_runtime::KeyWriter<'_>) {
            key.str("alice@example.com");
            *self.0.borrow_mut() = format!("{key:?}");
        }
    }
    let spy = Spy(std::cell::RefCell::default());
    let key = Key::of(&spy);
    assert!(
        !spy.0.borrow().contains("alice") && !spy.0.borrow().contains("97"),
        "{:?}",
        spy.0.borrow()
    );
    assert!(!format!("{key:?}").contains("alice"));
}

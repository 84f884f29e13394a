//! An annotation over `INCR` and `EXPIRE`: a key, a window in seconds, a number of times, and
//! helpers for the second, the minute, the hour and the day.

use super::*;

#[rate_limit(name = "incr: send", key = "<phone>", window = "60s", max = 2, algorithm = "fixed_window")]
async fn send(phone: &str) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_fixed_window_by_attribute_limits_each_key() {
    for (limiter, clock) in both() {
        limiter
            .scope(async {
                for refused in [false, false, true] {
                    assert_eq!(is_refused(&send("1").await), refused);
                }
                assert!(!is_refused(&send("2").await));
                clock.advance(MINUTE);
                assert!(!is_refused(&send("1").await));
            })
            .await;
    }
}

#[tokio::test]
async fn there_are_helpers_for_second_minute_hour_and_day() {
    for (limiter, clock) in both() {
        for (nth, (limit, window)) in [
            (Limit::per_second(1), SECOND),
            (Limit::per_minute(1), MINUTE),
            (Limit::per_hour(1), MINUTE * 60),
            (Limit::per_day(1), MINUTE * 60 * 24),
        ]
        .into_iter()
        .enumerate()
        {
            let rule = Rule::named(format!("per {nth}"), limit).with_algorithm(Algorithm::FixedWindow);
            assert!(admits(&limiter, &rule, &Key::global()).await);
            let refused = limiter.acquire(&rule, &Key::global()).await.unwrap_err();
            assert_eq!(refused.retry_after(), Some(window));
            clock.advance(window);
            assert!(admits(&limiter, &rule, &Key::global()).await);
        }
    }
}

/// Between two steps a process may die: here a check is one command, so there is no between, and
/// every key has an expiry whenever one looks.
#[tokio::test]
async fn no_crash_between_counting_and_expiring_can_leak_a_key() {
    let server = RedisServer::start();
    let (limiter, prefix) = on_redis(&server);
    for &algorithm in ALGORITHMS {
        let rule = Rule::named(format!("one step {algorithm:?}"), Limit::per_minute(2)).with_algorithm(algorithm);
        // The script is known from here on.
        assert!(admits(&limiter, &rule, &Key::of("first")).await);
        let sent =
            || ["evalsha", "eval", "incr", "expire", "pexpire", "multi"].map(|command| runs_of(&server, command));
        let [evalsha, eval, ..] = sent();
        for call in 0..10_u32 {
            let _ = admits(&limiter, &rule, &Key::of(&(call % 5))).await;
        }
        assert_eq!(sent()[..2], [evalsha + 10, eval], "{algorithm:?}: a check is one command");
        for (key, life) in lives(&server, &prefix) {
            assert!((1..=120_000).contains(&life), "{key} has {life} ms to live");
        }
    }
    assert_eq!(runs_of(&server, "incr") + runs_of(&server, "multi"), 0);
}

/// The same where calls are dropped at any moment: what has reached the server has its expiry.
#[tokio::test]
async fn a_dropped_call_leaks_no_key() {
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    for &algorithm in ALGORITHMS {
        let rule = Rule::named(format!("dropped {algorithm:?}"), Limit::per_minute(2)).with_algorithm(algorithm);
        for call in 0..50_u32 {
            let key = Key::of(&call);
            let check = limiter.acquire(&rule, &key);
            let _ = tokio::time::timeout(Duration::from_micros(u64::from(call) * 20), check).await;
        }
    }
    let _ = limiter.acquire(&Rule::new("last", Limit::per_minute(1)), &Key::global()).await.unwrap();
    let lives = lives(server, &prefix);
    assert!(lives.len() > 10, "most calls arrived: {}", lives.len());
    for (key, life) in lives {
        assert!((1..=120_000).contains(&life), "{key} has {life} ms to live");
    }
}

/// Where a key has lost its expiry, the call that finds it so is counted like any other.
#[tokio::test]
async fn no_call_is_let_through_uncounted_to_heal_a_key() {
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    for &algorithm in ALGORITHMS {
        let rule = Rule::named(format!("healed {algorithm:?}"), Limit::per_hour(3)).with_algorithm(algorithm);
        let mut admitted = 0;
        for _ in 0..10 {
            for (key, _) in lives(server, &prefix) {
                server.cli(&["PERSIST", &key]);
            }
            admitted += u32::from(admits(&limiter, &rule, &Key::global()).await);
        }
        assert_eq!(admitted, 3, "{algorithm:?}");
    }
}

/// A fixed window admits up to twice `max` across its edge, and says so; the default algorithm
/// never does.
#[tokio::test]
async fn the_default_admits_no_double_burst_across_an_edge() {
    let across = async |algorithm| {
        let [(limiter, clock), _] = both();
        let rule = Rule::new("edge", Limit::per_minute(10)).with_algorithm(algorithm);
        assert!(admits(&limiter, &rule, &Key::global()).await);
        clock.advance(MINUTE - SECOND);
        let mut within_two_seconds = 0;
        for _ in 0..2 {
            for _ in 0..20 {
                within_two_seconds += u32::from(admits(&limiter, &rule, &Key::global()).await);
            }
            clock.advance(SECOND);
        }
        within_two_seconds
    };
    assert_eq!(across(Algorithm::FixedWindow).await, 9 + 10);
    assert_eq!(across(Algorithm::default()).await, 9 + 1);
}

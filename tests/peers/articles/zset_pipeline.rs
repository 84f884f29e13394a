//! A sorted set in a MULTI pipeline, or in Lua, that adds first and counts after.

use super::*;

#[rate_limit(name = "zset: search", key = "<user>", window = "60s", max = 3)]
async fn search(user: u64) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_sliding_window_by_attribute() {
    for (limiter, clock) in both() {
        limiter
            .scope(async {
                for refused in [false, false, false, true] {
                    assert_eq!(is_refused(&search(1).await), refused);
                    clock.advance(SECOND);
                }
                clock.advance(MINUTE - SECOND * 4);
                for refused in [false, true] {
                    assert_eq!(is_refused(&search(1).await), refused, "one has left the window");
                }
            })
            .await;
    }
}

/// Where refused calls are recorded, whoever keeps trying keeps the window full for ever.
#[tokio::test]
async fn refused_calls_do_not_keep_the_window_full() {
    for (limiter, clock) in both() {
        for &algorithm in ALGORITHMS {
            let rule = Rule::named(format!("keen {algorithm:?}"), Limit::per_minute(3)).with_algorithm(algorithm);
            let mut admitted = 0;
            // Ten minutes of a call per second.
            for _ in 0..600 {
                admitted += u32::from(admits(&limiter, &rule, &Key::global()).await);
                clock.advance(SECOND);
            }
            let least = if algorithm == Algorithm::SlidingCounter { 20 } else { 30 };
            assert!((least..=33).contains(&admitted), "{admitted} under {algorithm:?} of 3 per minute");
        }
    }
}

/// … and its memory grows with every attempt.
#[tokio::test]
async fn refused_calls_are_not_recorded() {
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    for (name, max) in [("units", 5), ("weights", 500)] {
        let rule = Rule::new(name, Limit::per_hour(max)).with_cost(max / 5);
        for _ in 0..5 {
            assert!(admits(&limiter, &rule, &Key::global()).await);
        }
        let stored = lives(server, &prefix).into_iter().find(|(key, _)| key.contains(name)).unwrap().0;
        let before = server.cli(&["DUMP", &stored]);
        for _ in 0..200 {
            assert!(!admits(&limiter, &rule, &Key::global()).await);
        }
        assert_eq!(server.cli(&["DUMP", &stored]), before, "{name}: not a byte is written");
    }
}

/// `period * 1000` in 32 bits overflows from 25 days on.
#[tokio::test]
async fn long_windows_do_not_overflow() {
    let year = MINUTE * 60 * 24 * 366;
    for (limiter, clock) in both() {
        for &algorithm in ALGORITHMS {
            let rule = Rule::named(format!("year {algorithm:?}"), Limit::new(2, year)).with_algorithm(algorithm);
            for _ in 0..2 {
                assert!(admits(&limiter, &rule, &Key::global()).await);
            }
            let wait = limiter.acquire(&rule, &Key::global()).await.unwrap_err().retry_after().unwrap();
            assert!(wait >= year / 2, "{algorithm:?}: {wait:?}");
            clock.advance(wait - MICROSECOND);
            assert!(!admits(&limiter, &rule, &Key::global()).await, "{algorithm:?}");
            clock.advance(MICROSECOND);
            assert!(admits(&limiter, &rule, &Key::global()).await, "{algorithm:?}");
        }
    }
}

/// Counting before trimming counts what has left the window.
#[tokio::test]
async fn what_has_left_the_window_does_not_count() {
    for (limiter, clock) in both() {
        {
            let rule = Rule::new("trim", Limit::per_minute(100));
            for _ in 0..100 {
                assert!(admits(&limiter, &rule, &Key::global()).await);
            }
            // Each has a microsecond of its own.
            clock.advance(MINUTE + MICROSECOND * 99);
            // Nobody has called since: the first to come finds all of it free.
            assert_eq!(limiter.acquire(&rule, &Key::global()).await.unwrap().remaining(), 99);
            clock.advance(MINUTE / 2);
            for _ in 0..99 {
                assert!(admits(&limiter, &rule, &Key::global()).await);
            }
            assert!(!admits(&limiter, &rule, &Key::global()).await);
            clock.advance(MINUTE / 2);
            assert_eq!(limiter.peek(&rule, &Key::global()).await.unwrap().remaining(), 1);
        }
    }
}

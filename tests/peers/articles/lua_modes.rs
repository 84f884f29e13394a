//! `INCR` and `EXPIRE` in one Lua script, in four modes of when the expiry is set.

use super::*;

/// Setting the expiry again at every admission makes windows that never end: a caller well under
/// the limit adds up and is refused in the end.
#[tokio::test]
async fn a_caller_under_the_limit_is_never_refused() {
    for (limiter, clock) in both() {
        for &algorithm in ALGORITHMS {
            let rule = Rule::named(format!("steady {algorithm:?}"), Limit::per_minute(4)).with_algorithm(algorithm);
            for call in 0..500 {
                assert!(admits(&limiter, &rule, &Key::global()).await, "{algorithm:?}, call {call}, one in 20 s");
                clock.advance(SECOND * 20);
            }
        }
    }
}

/// Nor does anything that is refused.
#[tokio::test]
async fn refused_calls_do_not_move_the_end_of_a_window() {
    for (limiter, clock) in both() {
        for &algorithm in ALGORITHMS {
            let rule = Rule::named(format!("end {algorithm:?}"), Limit::per_minute(1)).with_algorithm(algorithm);
            assert!(admits(&limiter, &rule, &Key::global()).await);
            let mut left = limiter.acquire(&rule, &Key::global()).await.unwrap_err().retry_after().unwrap();
            while left > SECOND {
                clock.advance(SECOND);
                left -= SECOND;
                assert_eq!(limiter.acquire(&rule, &Key::global()).await.unwrap_err().retry_after(), Some(left));
            }
            clock.advance(left);
            assert!(admits(&limiter, &rule, &Key::global()).await, "{algorithm:?}");
        }
    }
}

/// `EXPIRE … NX` exists since Redis 7.0. The window is set together with the value (`SET … PXAT`,
/// 6.2), so no version of that command is needed.
#[tokio::test]
async fn a_counter_needs_no_expire_with_options() {
    let server = RedisServer::start();
    let (limiter, _) = on_redis(&server);
    let rule = Rule::new("no nx", Limit::per_minute(2)).with_algorithm(Algorithm::FixedWindow);
    for call in 0..4 {
        assert_eq!(admits(&limiter, &rule, &Key::global()).await, call < 2);
    }
    assert_eq!(["expire", "pexpire", "pexpireat"].map(|command| runs_of(&server, command)), [0; 3]);
    // The first call sets the window, the second writes into what is there.
    assert_eq!(["set", "setrange"].map(|command| runs_of(&server, command)), [1; 2], "what is refused writes nothing");
}

/// The end of a window is set by its first call and by no other.
#[tokio::test]
async fn the_expiry_of_a_window_is_never_set_anew() {
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    let rule = Rule::new("expiry", Limit::per_minute(1_000)).with_algorithm(Algorithm::FixedWindow);
    assert!(admits(&limiter, &rule, &Key::global()).await);
    let left = || lives(server, &prefix).pop().unwrap().1;
    let first = left();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(admits(&limiter, &rule, &Key::global()).await);
    }
    assert!(left() <= first - 40, "forty milliseconds have passed");
}

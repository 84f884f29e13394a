//! How many calls are admitted, and what is kept of them.

use super::*;

/// A log whose members are timestamps counts calls of one moment once: of 50,000 a few hundred were
/// left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_calls_in_a_burst_all_count() {
    const CALLS: usize = 50_000;
    let server = shared();
    let (limiter, prefix) = on_redis(server);
    // Room for two more: a count that is short by one shows.
    let rule = |max| Rule::new("burst", Limit::per_hour(max));
    assert_eq!(burst(&[&limiter], rule(50_002), &Key::global(), CALLS).await, CALLS);
    assert_eq!(limiter.peek(&rule(50_002), &Key::global()).await.unwrap().remaining(), 2);
    assert_eq!(server.number(&["ZCARD", &format!("{prefix}:rl1:sw-3600s:burst:")]), 50_000);
    assert_eq!(limiter.acquire(&rule(50_002), &Key::global()).await.unwrap().remaining(), 1);
    assert!(admits(&limiter, &rule(50_002), &Key::global()).await);
    assert!(!admits(&limiter, &rule(50_002), &Key::global()).await);
    limiter.reset(&rule(50_002), &Key::global()).await.unwrap();
}

/// The same with all calls in exactly one microsecond, which a real clock rarely shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_microsecond_all_count() {
    for (limiter, _clock) in both() {
        let rule = || Rule::new("moment", Limit::per_minute(1_000));
        assert_eq!(burst(&[&limiter], rule(), &Key::global(), 999).await, 999);
        assert_eq!(limiter.peek(&rule(), &Key::global()).await.unwrap().remaining(), 1);
        assert_eq!(burst(&[&limiter], rule(), &Key::global(), 999).await, 1);
    }
}

/// Random members lose a permit whenever two of them are equal; members made of a clock that steps
/// back do so too.
#[tokio::test]
async fn a_clock_that_comes_back_to_a_moment_loses_no_permit() {
    for (limiter, clock) in both() {
        let rule = Rule::new("again", Limit::per_minute(12));
        for _ in 0..3 {
            for _ in 0..4 {
                assert!(admits(&limiter, &rule, &Key::global()).await);
                clock.advance(MICROSECOND);
            }
            clock.step_back(MICROSECOND * 4);
        }
        assert!(!admits(&limiter, &rule, &Key::global()).await);
    }
}

/// To evaluate in one round trip and to update in another lets callers pass together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_and_charging_are_one_step() {
    let server = RedisServer::start();
    let prefix = unique("field");
    // Two limiters are two connections, as two processes have.
    let store = || RedisStore::new(&server.url()).unwrap().deny_cache(false);
    let limiter = || strict().store(store()).prefix(prefix.as_str()).build().unwrap();
    let (one, two) = (limiter(), limiter());
    for limiter in [&one, &two] {
        limiter.ready().await.unwrap();
        assert!(admits(limiter, &Rule::new("warm", Limit::per_minute(2)), &Key::global()).await);
    }
    for round in 0..20_u32 {
        let rule = Rule::new("one slot", Limit::per_minute(1));
        assert_eq!(burst(&[&one, &two], rule, &Key::of(&round), 256).await, 1, "in round {round}");
    }
}

/// A counter per fixed window admits twice the limit around the edge of two windows.
#[tokio::test]
async fn no_window_holds_more_than_max_whatever_its_edge() {
    for (limiter, clock) in both() {
        let rule = Rule::new("edge", Limit::per_minute(5));
        // The calls of one window, at its end.
        clock.advance(MINUTE - MICROSECOND * 10);
        for _ in 0..5 {
            assert!(admits(&limiter, &rule, &Key::global()).await);
            clock.advance(MICROSECOND);
        }
        for _ in 0..10 {
            assert!(!admits(&limiter, &rule, &Key::global()).await);
            clock.advance(MICROSECOND * 5);
        }
    }
}

/// Limiters that need two entries to count one, or that are off by one, never admit anything under
/// a limit of 1.
#[tokio::test]
async fn a_limit_of_one_admits_one() {
    for (limiter, clock) in both() {
        let rule = Rule::new("one", Limit::per_minute(1));
        for _ in 0..3 {
            assert!(admits(&limiter, &rule, &Key::global()).await);
            assert!(!admits(&limiter, &rule, &Key::global()).await);
            clock.advance(MINUTE);
        }
    }
}

/// A limit above what a fixed-size counter or a float holds silently does nothing.
#[tokio::test]
async fn a_limit_of_a_million_is_a_limit() {
    const MAX: u64 = 1_000_000;
    let clock = FakeClock::new();
    let memory = strict().store(MemoryStore::new().with_clock(clock.clone())).build().unwrap();
    let rule = Rule::new("million", Limit::per_hour(MAX));
    for _ in 0..MAX {
        assert!(memory.acquire(&rule, &Key::global()).await.is_ok());
    }
    assert!(!admits(&memory, &rule, &Key::global()).await);

    // On Redis a thousand of them at once, the most that a call may weigh.
    let (redis, _clock, _) = on_redis_with_clock(shared());
    let (thousand, rest) = (rule.with_cost(1_000), rule.with_cost(999));
    for _ in 0..MAX / 1_000 - 1 {
        assert!(admits(&redis, &thousand, &Key::global()).await);
    }
    assert!(admits(&redis, &rest, &Key::global()).await);
    assert!(!admits(&redis, &thousand, &Key::global()).await);
    assert!(admits(&redis, &rule, &Key::global()).await);
    assert!(!admits(&redis, &rule, &Key::global()).await);
    assert!(redis.reset(&rule, &Key::global()).await.unwrap());
}

/// What is too large for the arithmetic is a large limit, not none and not a small one.
#[tokio::test]
async fn the_largest_limits_are_counted_exactly() {
    for (limiter, _clock) in both() {
        for (name, max) in [("largest", Limit::MAX_COUNT), ("larger", u64::MAX)] {
            let rule = Rule::new(name, Limit::per_minute(max));
            for left in [1, 2, 3] {
                let decision = limiter.acquire(&rule, &Key::global()).await.unwrap();
                assert_eq!(decision.limit(), Limit::MAX_COUNT);
                assert_eq!(decision.remaining(), Limit::MAX_COUNT - left);
            }
        }
    }
}

/// A log that also records what it refuses grows without bound, and stays full for as long as
/// somebody tries.
#[tokio::test]
async fn refused_calls_are_not_recorded() {
    let server = shared();
    let (limiter, clock, prefix) = on_redis_with_clock(server);
    let rule = Rule::new("refused", Limit::per_minute(5));
    let stored = format!("{prefix}:rl1:sw-60s:refused:");
    for _ in 0..5 {
        assert!(admits(&limiter, &rule, &Key::global()).await);
    }
    let memory = server.number(&["MEMORY", "USAGE", &stored]);
    let log = server.cli(&["ZRANGE", &stored, "0", "-1"]);
    for _ in 0..599 {
        clock.advance(MINUTE / 600);
        assert!(!admits(&limiter, &rule, &Key::global()).await);
    }
    assert_eq!(server.number(&["MEMORY", "USAGE", &stored]), memory);
    assert_eq!(server.cli(&["ZRANGE", &stored, "0", "-1"]), log);
    clock.advance(MINUTE / 600);
    assert!(admits(&limiter, &rule, &Key::global()).await, "the window opens although somebody kept trying");
}

/// The same in memory: the window opens.
#[tokio::test]
async fn a_caller_who_keeps_trying_is_not_kept_out() {
    for (limiter, clock) in both() {
        let rule = Rule::new("trying", Limit::per_minute(2));
        for _ in 0..2 {
            assert!(admits(&limiter, &rule, &Key::global()).await);
        }
        for _ in 0..59 {
            clock.advance(MINUTE / 60);
            assert!(!admits(&limiter, &rule, &Key::global()).await);
        }
        clock.advance(MINUTE / 60);
        assert!(admits(&limiter, &rule, &Key::global()).await);
    }
}

/// To count before trimming refuses calls for what has expired.
#[tokio::test]
async fn expired_entries_do_not_count() {
    for (limiter, clock) in both() {
        let rule = Rule::new("expired", Limit::per_minute(5));
        for _ in 0..3 {
            assert!(admits(&limiter, &rule, &Key::global()).await);
        }
        clock.advance(MINUTE / 2);
        assert!(admits(&limiter, &rule, &Key::global()).await);
        // Redis dates calls of one microsecond one after the other.
        clock.advance(MINUTE / 2 + MICROSECOND * 3);
        assert_eq!(limiter.peek(&rule, &Key::global()).await.unwrap().remaining(), 4);
        for left in [3, 2, 1, 0] {
            assert_eq!(limiter.acquire(&rule, &Key::global()).await.unwrap().remaining(), left);
        }
        assert!(!admits(&limiter, &rule, &Key::global()).await);
    }
}

/// A counter whose life is extended by every call adds up and refuses somebody who is well under
/// the limit.
#[tokio::test]
async fn a_caller_under_the_limit_never_adds_up_to_a_refusal() {
    for (limiter, clock) in both() {
        let rule = Rule::new("steady", Limit::per_minute(2));
        for call in 0..200 {
            assert!(admits(&limiter, &rule, &Key::global()).await, "call {call}");
            clock.advance(MINUTE * 6 / 10);
        }
    }
}

/// A limiter read backwards turns "3 in 60 seconds" into one in twenty seconds, or sixty in three.
#[tokio::test]
async fn three_in_a_minute_are_three_at_once_and_none_until_the_minute_is_over() {
    for (limiter, clock) in both() {
        let rule = Rule::new("backwards", Limit::per_minute(3));
        for _ in 0..3 {
            assert!(admits(&limiter, &rule, &Key::global()).await);
        }
        clock.advance(MINUTE / 3);
        assert!(!admits(&limiter, &rule, &Key::global()).await);
        clock.advance(MINUTE / 3 * 2 - MICROSECOND);
        assert!(!admits(&limiter, &rule, &Key::global()).await);
    }
}

/// A map of keys that nobody bounds is filled by whoever sends new ones; one that evicts what was
/// used longest ago hands out fresh quotas.
#[tokio::test]
async fn a_flood_of_keys_neither_fills_the_memory_store_nor_frees_a_spent_key() {
    const CAPACITY: usize = 1_000;
    let store = Arc::new(MemoryStore::with_capacity(CAPACITY).with_clock(FakeClock::new()));
    let limits = [Limit::per_minute(3)];
    let ask = async |key: &[u8]| {
        let request = ratelimit_runtime::store::Request::new(key, ratelimit_runtime::Algorithm::SlidingWindow, &limits);
        ratelimit_runtime::Store::acquire(&*store, request).await.unwrap().allowed
    };
    for _ in 0..3 {
        assert!(ask(b"spent").await);
    }
    let mut admitted = 0;
    for key in 0..50_000_u32 {
        admitted += usize::from(ask(&key.to_be_bytes()).await);
    }
    assert!(store.len() <= CAPACITY + CAPACITY / 2, "{} keys are held", store.len());
    assert_eq!(admitted, 50_000, "each has a limit of its own");
    assert!(!ask(b"spent").await);
}

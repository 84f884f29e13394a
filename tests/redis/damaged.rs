//! Values that no script has written: none of them admits for ever or is counted for more than it
//! may be, and none fails the keys beside it.

use std::time::Duration;

use futures_util::future::join_all;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store as _};

use crate::support::clock::ServerClock;
use crate::support::random::{Random, seed};
use crate::support::redis::shared;
use crate::support::unique;

/// The time of a fake clock at its start, as the scripts keep it.
const START: f64 = 1.7e15;
const WINDOW: Duration = Duration::from_secs(3_000);

/// Numbers as a script may find them, of any length.
fn bytes(random: &mut Random) -> Vec<u8> {
    let likely = [
        0.0,
        0.0,
        1.0,
        2.0,
        5.0,
        5.0,
        START,
        START - 1e6,
        START + 1e6,
    ];
    let odd = [
        -1.0,
        f64::NAN,
        f64::INFINITY,
        1e300,
        5e-324,
        9_007_199_254_740_992.0,
        0.5,
    ];
    let numbers = random.of(&[0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 9, 11]);
    let number = |_| {
        if random.below(8) == 0 {
            random.of(&odd)
        } else {
            random.of(&likely)
        }
    };
    let mut bytes: Vec<u8> = (0..numbers)
        .map(number)
        .flat_map(f64::to_le_bytes)
        .collect();
    if random.below(8) == 0 {
        bytes.truncate(usize::try_from(random.below(80)).unwrap());
    }
    bytes
}

/// What three keys answer that are asked together.
async fn asked(
    store: &RedisStore,
    algorithm: Algorithm,
    keys: &[String; 3],
    how: u64,
) -> Vec<Result<Verdict, StoreError>> {
    let limits = [Limit::new(5, WINDOW)];
    let ask = keys.iter().map(|key| {
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        match how {
            0 => store.acquire(request),
            1 => store.acquire(request.reserving()),
            2 => store.acquire(request.with_growing_block(Duration::from_secs(1), 4 * WINDOW)),
            _ => store.peek(request),
        }
    });
    join_all(ask).await
}

#[tokio::test]
async fn any_bytes_at_a_key_are_bounded_and_leave_the_keys_beside_it_alone() {
    let server = shared();
    let mut random = Random::new(seed());
    for algorithm in ratelimit_conformance::ALGORITHMS
        .iter()
        .copied()
        .filter(|algorithm| *algorithm != Algorithm::SlidingWindow)
    {
        let store = server
            .store()
            .with_clock(FakeClock::new())
            .deny_cache(false);
        store.ready().await.unwrap();
        let mut tally = [0_u32; 2];
        for _ in 0..1_000 {
            let keys = ["a", "b", "c"].map(|key| unique(&format!("bytes-{key}")));
            let bytes = bytes(&mut random);
            let set: [&[u8]; 5] = [b"SET", keys[1].as_bytes(), &bytes, b"PX", b"60000"];
            assert_eq!(server.cli(&set), "OK");
            let how = random.below(4);
            let said = asked(&store, algorithm, &keys, how).await;
            let what = format!("{algorithm}, {how}, {bytes:?}: {said:?}");
            let [first, found, last] = said.as_slice() else {
                panic!("{what}")
            };
            for beside in [first, last] {
                assert!(
                    beside.as_ref().is_ok_and(|verdict| verdict.allowed),
                    "{what}"
                );
            }
            match found {
                Ok(verdict) => {
                    assert!(verdict.remaining <= 5, "{what}");
                    tally[0] += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{what}");
                    tally[1] += 1;
                }
            }
            // It is neither made to stay nor touched if it is foreign.
            assert_ne!(server.cli(&["PTTL", &keys[1]]), "-1", "{what}");
        }
        assert!(
            tally.iter().all(|count| *count > 5),
            "{algorithm}: {tally:?}"
        );
    }
}

/// A level is said to count for longer than any bucket takes to refill.
#[tokio::test]
async fn a_block_keeps_a_bucket_for_two_years_at_most() {
    let (store, key) = (shared().store(), unique("kept"));
    let value: Vec<u8> = [1.0, 9e15, 1.0]
        .into_iter()
        .flat_map(f64::to_le_bytes)
        .collect();
    shared().cli(&[b"SET", key.as_bytes(), &value, b"PX", b"60000"]);
    store
        .block(
            Request::new(
                key.as_bytes(),
                Algorithm::TokenBucket,
                &[Limit::new(5, WINDOW)],
            ),
            WINDOW,
        )
        .await
        .unwrap();
    assert!((1..=2 * 366 * 86_400_000 + 1).contains(&shared().number(&["PTTL", &key])));
}

/// A key may expire or be evicted between any two calls: then it is a new one, and those beside it
/// are what they were.
#[tokio::test]
async fn a_key_that_is_gone_is_new() {
    let server = shared();
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let store = server
            .store()
            .with_clock(FakeClock::new())
            .deny_cache(false);
        store.ready().await.unwrap();
        let keys = ["a", "b", "c"].map(|key| unique(&format!("gone-{key}")));
        let left = async || {
            asked(&store, algorithm, &keys, 0)
                .await
                .into_iter()
                .map(|said| said.unwrap().remaining)
        };
        for remaining in [4, 3] {
            assert!(left().await.all(|left| left == remaining), "{algorithm}");
        }
        assert_eq!(server.cli(&["PEXPIRE", &keys[1], "1"]), "1");
        while server.cli(&["EXISTS", &keys[1]]) != "0" {}
        assert_eq!(left().await.collect::<Vec<_>>(), [2, 4, 2], "{algorithm}");
    }
}

/// Without an expiry, the key of a client who does not come again would stay for ever.
#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "sets the clock of a server by LD_PRELOAD"
)]
async fn an_expiry_that_was_taken_away_is_set_again_after_the_window_at_the_latest() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    let without_scripts = [
        (Algorithm::SlidingWindow, "%log"),
        (Algorithm::FixedWindow, "%plain"),
    ];
    let rows = ratelimit_conformance::ALGORITHMS
        .iter()
        .map(|&algorithm| (RedisMode::Scripts, algorithm, ""));
    let rows = rows
        .chain(without_scripts.map(|(algorithm, form)| (RedisMode::Transactions, algorithm, form)));
    let window = i64::try_from(WINDOW.as_millis()).unwrap();
    for (row, (mode, algorithm, form)) in (0..).zip(rows) {
        let store = server.store().mode(mode).deny_cache(false);
        let (key, limits) = (unique("persisted"), [Limit::new(5, WINDOW)]);
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let stored = format!("{key}{form}");
        for windows in [3 * row, 3 * row + 2] {
            clock.set_ms(windows * window);
            assert!(store.acquire(request).await.unwrap().allowed);
            assert!(store.acquire(request).await.unwrap().allowed);
            if windows == 3 * row {
                assert_eq!(server.cli(&["PERSIST", &stored]), "1");
            }
        }
        let left = server.number(&["PTTL", &stored]);
        assert!(
            (1..=2 * window + 1).contains(&left),
            "{mode:?}, {algorithm}: {left} ms"
        );
    }
}

/// A bucket ends with units taken ahead, and until when they do not drain.
#[tokio::test]
async fn no_bucket_ends_with_other_units_taken_ahead_than_a_lease_can_have() {
    let server = shared();
    let clock = FakeClock::new();
    let now = clock.now().as_secs_f64() * 1e6;
    let store = server.store().with_clock(clock);
    store.ready().await.unwrap();
    let (max, limits) = (1_000, [Limit::new(1_000, WINDOW)]);
    let late = now + 11e6;
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        for (units, until, is_sound) in [
            (0.0, now, true),
            (8.0, now + 1e6, true),
            (8.0, now - 1e6, true),
            (-1.0, now + 1e6, false),
            (0.5, now + 1e6, false),
            (9_007_199_254_740_992.0, now + 1e6, false),
            (f64::NAN, now + 1e6, false),
            (8.0, late, false),
            (8.0, f64::INFINITY, false),
            (8.0, 1_152_921_504_606_846_976.0, false),
            (8.0, f64::NAN, false),
            (8.0, -1.0, false),
            (8.0, now + 0.5, false),
        ] {
            let (key, level) = (unique("ahead"), 10.0 * WINDOW.as_secs_f64() * 1e6);
            let value: Vec<u8> = [now, -(now + 60e6), level, units, until, now - 2e6, 0.0, 0.0]
                .into_iter()
                .flat_map(f64::to_le_bytes)
                .collect();
            server.cli(&[b"SET", key.as_bytes(), &value, b"PX", b"60000"]);
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            for answer in [store.acquire(request).await, store.peek(request).await] {
                match answer {
                    Ok(verdict) if is_sound => assert_eq!(verdict.remaining, max - 11),
                    Err(error) if !is_sound => {
                        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
                    }
                    answer => panic!("{algorithm}: {units} until {until}: {answer:?}"),
                }
            }
            // After the second until which it is held, and a second and a millisecond late.
            let most = 2 * i64::try_from(WINDOW.as_millis()).unwrap() + 2_001;
            let lives = server.number(&["PTTL", &key]);
            assert!((1..=most).contains(&lives), "{algorithm}: {lives} ms");
        }
    }
}

/// A log whose members no store has written is left as it is.
#[tokio::test]
async fn foreign_members_of_a_log_are_an_error_in_every_operation() {
    let server = shared();
    for (mode, form) in [(RedisMode::Scripts, ""), (RedisMode::Transactions, "%log")] {
        let store = server.store().with_clock(FakeClock::new()).mode(mode);
        for (member, score) in [
            ("1e18", "1"),
            ("nan", "1"),
            ("alice", "1e17"),
            ("9999998", "1"),
            ("ban", "inf"),
            // As long as a ticket.
            ("of another one's", "1"),
            // Later than any lease ends.
            ("1700000017000000", "inf"),
            ("1700000017000000", "1800000000000000"),
            // What a double counts by twos: one more than it is itself.
            ("9999999999999998", "9999999999999998"),
        ] {
            let (key, limits) = (unique("log"), [Limit::new(5, WINDOW)]);
            let stored = format!("{key}{form}");
            server.cli(&["ZADD", &stored, score, member]);
            let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
            let mut errors = vec![
                store.acquire(request).await.map(drop),
                store.peek(request).await.map(drop),
                store.refund(request, 1_700_000_000_000_000).await.map(drop),
            ];
            if mode == RedisMode::Scripts {
                errors.extend([
                    store.block(request, WINDOW).await,
                    store.unblock(request).await.map(drop),
                ]);
            }
            for (operation, error) in errors.into_iter().enumerate() {
                let kind = error.unwrap_err().kind();
                assert_eq!(
                    kind,
                    StoreErrorKind::Misconfigured,
                    "{operation}: {member} at {score}, {mode:?}"
                );
            }
            assert_eq!(
                server.cli(&["ZCARD", &stored]),
                "1",
                "{member} at {score}: nothing was written"
            );
            server.cli(&["DEL", &stored]);
        }
    }
}

#[tokio::test]
async fn the_error_of_a_key_that_holds_something_else_says_what_to_do() {
    let server = shared();
    let store = server.store();
    let limits = [Limit::new(1, WINDOW)];
    let (text, foreign) = (unique("text"), unique("foreign"));
    server.cli(&["SET", &text, "hello"]);
    server.cli(&["ZADD", &foreign, "1", "alice"]);
    for key in [text, foreign] {
        let error = store
            .acquire(Request::new(
                key.as_bytes(),
                Algorithm::SlidingWindow,
                &limits,
            ))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(
            error.message().contains("prefix") && !error.message().contains(&key),
            "{error}"
        );
        assert!(!error.message().contains("WRONGTYPE WRONGTYPE"), "{error}");
        server.cli(&["DEL", &key]);
    }
}

/// A key that another program uses is left as it is, whatever a call asks of it.
#[tokio::test]
async fn a_value_of_another_program_is_not_changed() {
    let server = shared();
    let by_script = ratelimit_conformance::ALGORITHMS
        .iter()
        .map(|&algorithm| (RedisMode::Scripts, algorithm, ""));
    let rows = by_script.chain([
        (RedisMode::Transactions, Algorithm::SlidingWindow, "%log"),
        (RedisMode::Transactions, Algorithm::FixedWindow, "%plain"),
    ]);
    for (mode, algorithm, form) in rows {
        let store = server.store().mode(mode).deny_cache(false);
        for foreign in [
            &["SET", "12"][..],
            &["SET", ""],
            &["SET", "a text that is longer than any number"],
            &["SET", "\0\0\0\0\0\0\0\x01\0"],
            &["RPUSH", "a"],
            &["HSET", "a", "1"],
            &["SADD", "a"],
            &["ZADD", "1", "alice"],
            &["XADD", "1-1", "a", "1"],
        ] {
            for operation in 0..9 {
                let (key, limits) = (unique("foreign"), [Limit::new(5, WINDOW)]);
                let stored = format!("{key}{form}");
                let set = [&foreign[..1], &[&*stored], &foreign[1..]].concat();
                server.cli(&set);
                let before = server.cli(&["DUMP", &stored]);
                let request = Request::new(key.as_bytes(), algorithm, &limits);
                let ticket = 1_700_000_000_000_000;
                let said = match operation {
                    0 => store.acquire(request).await.map(drop),
                    1 => store.peek(request).await.map(drop),
                    2 => store.acquire(request.reserving()).await.map(drop),
                    3 => store.acquire(request.reserving_estimate()).await.map(drop),
                    4 => store.refund(request, ticket).await.map(drop),
                    5 => store.settle(request.reserving(), ticket, 2).await.map(drop),
                    6 => store.block(request, WINDOW).await,
                    7 => store.unblock(request).await.map(drop),
                    _ => {
                        let block = Duration::from_secs(1);
                        store.offend(request.with_block(block)).await.map(drop)
                    }
                };
                let what = format!("{mode:?}, {algorithm}, {operation}, {set:?}: {said:?}");
                assert_eq!(server.cli(&["DUMP", &stored]), before, "{what}");
                assert_eq!(server.cli(&["PTTL", &stored]), "-1", "{what}");
                let kind = said.unwrap_err().kind();
                assert!(
                    matches!(
                        kind,
                        StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported
                    ),
                    "{what}"
                );
                server.cli(&["DEL", &stored]);
            }
        }
    }
}

//! Logs that another program has written or damaged, a row for each field: no call fails but for
//! that key, nothing is admitted by a number that is none, and what is refused ends.

use std::time::Duration;

use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, LogLayout, RedisMode, RedisStore, Store};

use super::{MINUTE, per};
use crate::support::redis::shared;
use crate::support::unique;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    /// Every operation says that it is another program's, and leaves it alone.
    Foreign,
    /// Refused until the window is over.
    Refused,
    Admitted,
}

use Expected::{Admitted, Foreign, Refused};

const NAN: [u8; 8] = [0, 0, 0, 0, 0, 0, 0xf8, 0x7f];

/// What is written over a ring with three entries of one limit, from which byte on.
const RINGS: [(&str, usize, &[u8], Expected); 13] = [
    ("an unknown version", 0, &[2], Foreign),
    ("an unknown flag", 1, &[16], Foreign),
    ("sums without the slots for them", 1, &[8], Foreign),
    ("another number of limits", 2, &[2], Foreign),
    ("more slots than there are bytes", 3, &[5, 0, 0, 0], Foreign),
    ("refunds that never were", 7, &[0xff; 4], Admitted),
    ("an expiry that is no number", 11, &NAN, Admitted),
    ("a first entry behind the last slot", 19, &[4, 0, 0, 0], Foreign),
    ("more entries than slots", 23, &[5, 0, 0, 0], Foreign),
    ("a ticket that is no number", 27, &NAN, Foreign),
    ("a ticket that is too large", 27, &[0, 0, 0, 0, 0, 0, 0x50, 0x43], Foreign),
    ("a cost that is no number", 35, &NAN, Refused),
    ("extras that are not there", 1, &[4], Foreign),
];

fn store(clock: &FakeClock, layout: LogLayout) -> RedisStore {
    let store = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone());
    store.mode(RedisMode::ScriptsWith(layout)).deny_cache(false)
}

fn request<'a>(key: &'a str, limits: &'a [Limit]) -> Request<'a> {
    Request::new(key.as_bytes(), Algorithm::SlidingWindow, limits)
}

fn dump(key: &str) -> String {
    shared().cli(&["EVAL", "return redis.sha1hex(redis.call('DUMP', KEYS[1]))", "1", key])
}

fn write(key: &str, at: usize, bytes: &[u8]) {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("\\{byte}")).collect();
    let bytes = bytes.concat();
    let script = format!("redis.call('SETRANGE', KEYS[1], ARGV[1], '{bytes}')");
    shared().cli(&["EVAL", &script, "1", key, &at.to_string()]);
}

/// Asks all there is of a key, between two others in one call each.
async fn is_as_expected(store: &RedisStore, clock: &FakeClock, key: &str, expected: Expected, what: &str) {
    let limits = [per(1_000, MINUTE)];
    let before = dump(key);
    let (left, right) = (unique("left"), unique("right"));
    let asked = request(key, &limits);
    let peeked = store.peek(asked).await;
    let (first, here, last) = tokio::join!(
        store.acquire(request(&left, &limits)),
        store.acquire(asked),
        store.acquire(request(&right, &limits))
    );
    assert!(first.unwrap().allowed && last.unwrap().allowed, "{what}: the others are decided");
    if expected != Foreign {
        let here = here.unwrap();
        assert_eq!(here.allowed, expected == Admitted, "{what}: {here:?}");
        assert_eq!(peeked.unwrap().allowed, expected == Admitted, "{what}");
        let life: u64 = shared().cli(&["PTTL", key]).parse().unwrap();
        assert!((1..=2 * MINUTE / 1_000).contains(&life), "{what}: {life} ms");
        clock.advance(Duration::from_secs(60));
        assert!(store.acquire(asked).await.unwrap().allowed, "{what}: no longer than the window");
        return;
    }
    let mut errors = vec![peeked.map(drop), here.map(drop)];
    errors.push(store.acquire(asked.reserving()).await.map(drop));
    errors.push(store.refund(asked, 1).await.map(drop));
    errors.push(store.commit(asked.reserving(), 1).await.map(drop));
    errors.push(store.unblock(asked).await.map(drop));
    for (operation, answer) in errors.into_iter().enumerate() {
        let kind = answer.map_err(|error| error.kind());
        // A store that keeps to sorted sets takes no reservations.
        let is_unsupported = matches!(operation, 2 | 4) && kind == Err(StoreErrorKind::Unsupported);
        let is_foreign = kind == Err(StoreErrorKind::Misconfigured);
        assert!(is_unsupported || is_foreign, "{what}, operation {operation}: {kind:?}");
    }
    assert_eq!(dump(key), before, "{what}: nothing is written");
}

#[tokio::test]
async fn a_ring_that_is_damaged_is_an_error_or_counts_for_a_window() {
    for (what, at, bytes, expected) in RINGS {
        let clock = FakeClock::new();
        let (store, key) = (store(&clock, LogLayout::Ring), unique("damaged"));
        for _ in 0..3 {
            assert!(store.acquire(request(&key, &[per(1_000, MINUTE)])).await.unwrap().allowed);
        }
        write(&key, at, bytes);
        is_as_expected(&store, &clock, &key, expected, what).await;
    }
}

/// The numbers of a gap stand behind the block, in the extras of a ring of 4 slots.
#[tokio::test]
async fn a_ring_with_a_gap_that_cannot_be_is_an_error() {
    const LOWER: usize = 43 + 4 * 12 + 24;
    const GAP: usize = LOWER + 4;
    let rows: [(&str, usize, [u8; 4], Expected); 6] = [
        ("as many entries before the gap as there are", LOWER, [3, 0, 0, 0], Refused),
        ("one more", LOWER, [4, 0, 0, 0], Foreign),
        ("no end of them", LOWER, [0xff; 4], Foreign),
        ("a gap of the slots that are free", GAP, [1, 0, 0, 0], Refused),
        ("of one more", GAP, [2, 0, 0, 0], Foreign),
        ("of no end", GAP, [0xff; 4], Foreign),
    ];
    for (what, at, bytes, expected) in rows {
        let clock = FakeClock::new();
        let (store, key, limits) = (store(&clock, LogLayout::Ring), unique("gap"), [per(1_000, MINUTE)]);
        for _ in 0..3 {
            assert!(store.acquire(request(&key, &limits)).await.unwrap().allowed);
        }
        store.block(request(&key, &limits), Duration::from_secs(60)).await.unwrap();
        write(&key, at, &bytes);
        is_as_expected(&store, &clock, &key, expected, what).await;
    }
}

/// What is wrong in the sums of 256 slots counts until the newest entry has left, and never makes
/// a reply that the store does not believe.
#[tokio::test]
async fn sums_that_are_wrong_count_for_a_window() {
    const MAX: u64 = 600;
    // Of the first block: its last time, its cost.
    let (time, cost) = (43 + 768 * 12, 43 + 768 * 12 + 8);
    let rows = [
        ("as they were", cost, 256.0, Some(511)),
        ("a last time ahead", time, 1.8e15, Some(511)),
        ("a cost that is no number", cost, f64::NAN, None),
        ("a cost without end", cost, f64::INFINITY, Some(511)),
        ("a cost below 0", cost, -1e9, None),
        ("a cost that is too low", cost, 200.0, Some(455)),
        ("a cost that is too high", cost, 1e9, Some(599)),
    ];
    for (what, at, number, left) in rows {
        let clock = FakeClock::new();
        let (store, key, limits) = (store(&clock, LogLayout::Ring), unique("sums"), [per(MAX, MINUTE)]);
        for entry in 0..MAX {
            assert!(store.acquire(request(&key, &limits)).await.unwrap().allowed);
            clock.advance(Duration::from_micros(10));
            if entry == 511 {
                clock.advance(Duration::from_secs(30));
            }
        }
        assert_eq!(shared().cli(&["STRLEN", &key]), (43 + 768 * 12 + 3 * 24).to_string());
        write(&key, at, &number.to_le_bytes());
        clock.advance(Duration::from_secs(31));
        let verdict = store.acquire(request(&key, &limits)).await.unwrap();
        assert_eq!(verdict.allowed.then_some(verdict.remaining), left, "{what}: {verdict:?}");
        clock.advance(Duration::from_secs(60));
        let verdict = store.acquire(request(&key, &limits)).await.unwrap();
        assert_eq!((verdict.allowed, verdict.remaining), (true, MAX - 1), "{what}");
    }
}

#[tokio::test]
async fn a_ring_that_is_cut_short_is_an_error() {
    for length in [1, 42, 43, 60] {
        let clock = FakeClock::new();
        let (store, key) = (store(&clock, LogLayout::Ring), unique("short"));
        for _ in 0..30 {
            assert!(store.acquire(request(&key, &[per(1_000, MINUTE)])).await.unwrap().allowed);
        }
        let script = "redis.call('SET', KEYS[1], redis.call('GETRANGE', KEYS[1], 0, ARGV[1] - 1), 'KEEPTTL')";
        shared().cli(&["EVAL", script, "1", &key, &length.to_string()]);
        is_as_expected(&store, &clock, &key, Foreign, &format!("{length} bytes")).await;
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error() {
    let clock = FakeClock::new();
    for layout in [LogLayout::Zset, LogLayout::Ring] {
        for command in [["RPUSH", "x"], ["SADD", "x"]] {
            let key = unique("type");
            shared().cli(&[command[0], &key, command[1]]);
            is_as_expected(&store(&clock, layout), &clock, &key, Foreign, command[0]).await;
        }
    }
}

#[tokio::test]
async fn a_sorted_set_of_another_form_is_an_error() {
    const NOW: u64 = 1_700_000_000_000_000;
    let digits = |number: u64| number.to_string();
    let rows = [
        ("a name of other letters", vec![(digits(NOW), "abcdefghijklmnop".to_owned())]),
        ("a name that is too short", vec![(digits(NOW), "17".to_owned())]),
        ("a note of the first format", vec![(digits(NOW * 3), format!("meta:{0:016}:{0:016}", 0))]),
        ("two notes", [0, 1].map(|strikes| (digits(NOW * 3), format!("meta:{0:016}:{0:016}:{strikes:04}", 0))).into()),
        ("a note before its time", vec![(digits(NOW), format!("meta:{0:016}:{0:016}:0000", 0))]),
        ("an entry ahead of its ticket", vec![(digits(NOW + 9), digits(NOW + 8))]),
        // The next ticket is a member already: its `ZADD` adds nothing.
        ("a member where a ticket goes", vec![(digits(NOW - 2), digits(NOW)), (digits(NOW - 1), digits(NOW - 9))]),
    ];
    for (what, members) in rows {
        let clock = FakeClock::new();
        let (store, key) = (store(&clock, LogLayout::Zset), unique("set"));
        for (score, member) in members {
            shared().cli(&["ZADD", &key, &score, &member]);
        }
        if what == "a member where a ticket goes" {
            let error = store.acquire(request(&key, &[per(5, MINUTE)])).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{what}");
            assert_eq!(shared().cli(&["ZCARD", &key]), "2", "{what}");
        } else {
            is_as_expected(&store, &clock, &key, Foreign, what).await;
        }
    }
}

/// An entry of the future counts, and lives no longer than one of now.
#[tokio::test]
async fn an_entry_of_the_future_lives_a_window() {
    let clock = FakeClock::new();
    let (store, key) = (store(&clock, LogLayout::Zset), unique("future"));
    let limits = [per(1, MINUTE)];
    shared().cli(&["ZADD", &key, "1800000000000000", "1800000000000000"]);
    let refused = store.acquire(request(&key, &limits)).await.unwrap();
    assert!(!refused.allowed && refused.retry_after_us <= MINUTE + 1_000, "{refused:?}");
    let life: u64 = shared().cli(&["PTTL", &key]).parse().unwrap();
    assert!((1..=MINUTE / 1_000).contains(&life), "{life} ms");
}

/// A key that expires or is removed between two calls is a new one.
#[tokio::test]
async fn a_key_that_is_gone_is_a_new_one() {
    for layout in [LogLayout::Zset, LogLayout::Ring] {
        let clock = FakeClock::new();
        let (store, key, limits) = (store(&clock, layout), unique("gone"), [per(1, MINUTE)]);
        let charged = store.acquire(request(&key, &limits)).await.unwrap();
        shared().cli(&["DEL", &key]);
        assert!(!store.refund(request(&key, &limits), charged.ticket).await.unwrap());
        assert!(store.acquire(request(&key, &limits)).await.unwrap().allowed);
        assert!(!store.acquire(request(&key, &limits)).await.unwrap().allowed);
    }
}

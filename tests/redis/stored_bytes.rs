//! The bytes of every form in which a key is kept on Redis, as `docs/redis_format.md`
//! describes them. Frozen from the first release on: a test here that fails is a new format.

#![allow(clippy::string_slice, reason = "hexadecimal digits")]

use std::time::Duration;

use crate::support::redis::shared;
use crate::support::unique;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};

/// What a fake clock shows first.
const START: u64 = 1_700_000_000_000_000;
const MINUTE: u64 = 60_000_000;

struct Key {
    store: RedisStore,
    clock: FakeClock,
    name: String,
    algorithm: Algorithm,
    limits: Vec<Limit>,
}

impl Key {
    fn new(algorithm: Algorithm, limits: &[Limit]) -> Self {
        let clock = FakeClock::new();
        let store = shared().store().with_clock(clock.clone());
        Self {
            store,
            clock,
            name: unique("bytes"),
            algorithm,
            limits: limits.to_vec(),
        }
    }

    fn request(&self, cost: u64) -> Request<'_> {
        Request::new(self.name.as_bytes(), self.algorithm, &self.limits).with_cost(cost)
    }

    async fn acquire(&self, cost: u64) -> u64 {
        let verdict = self.store.acquire(self.request(cost)).await.unwrap();
        assert!(verdict.allowed);
        verdict.ticket
    }

    async fn reserve(&self, cost: u64) -> u64 {
        self.store
            .acquire(self.request(cost).reserving())
            .await
            .unwrap()
            .ticket
    }

    async fn block(&self, micros: u64) {
        self.store
            .block(self.request(1), Duration::from_micros(micros))
            .await
            .unwrap();
    }

    fn pass(&self, micros: u64) {
        self.clock.advance(Duration::from_micros(micros));
    }

    /// The string, in hexadecimal.
    fn hex(&self, suffix: &str) -> String {
        let script = "return (string.gsub(redis.call('GET', KEYS[1]), '.', \
                      function(byte) return string.format('%02x', string.byte(byte)) end))";
        shared().cli(&["EVAL", script, "1", &format!("{}{suffix}", self.name)])
    }

    fn bytes(&self, suffix: &str) -> Vec<u8> {
        let hex = self.hex(suffix);
        (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    }

    /// The string as little-endian doubles, without fractions of a microsecond.
    fn numbers(&self) -> Vec<i64> {
        let bytes = self.bytes("");
        assert_eq!(bytes.len() % 8, 0);
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
        bytes
            .chunks(8)
            .map(|bytes| format!("{}", number(bytes).trunc()).parse().unwrap())
            .collect()
    }

    /// The sorted set: members and scores.
    fn members(&self) -> Vec<String> {
        let all = shared().cli(&["ZRANGE", &self.name, "0", "-1", "WITHSCORES"]);
        all.lines().map(str::to_owned).collect()
    }
}

/// A sorted set: each unit of cost is a member, whose score is the microsecond that is its own.
#[tokio::test]
async fn a_sliding_window_is_stored_as_a_sorted_set() {
    let key = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(20)]);
    let _ = key.acquire(1).await;
    let newest = key.acquire(2).await;
    assert_eq!(
        newest,
        START + 1,
        "the ticket of a call is that of its first unit"
    );
    let charged = members(&[(0, ""), (1, ""), (2, "")]);
    assert_eq!(key.members(), charged);
    // An estimate is a charge, and its last unit has a mark.
    let estimate = key
        .store
        .acquire(key.request(2).reserving_estimate())
        .await
        .unwrap()
        .ticket;
    assert_eq!(
        key.members(),
        [charged.clone(), members(&[(3, ""), (4, "e")])].concat()
    );
    assert!(
        key.store
            .settle(key.request(2).reserving_estimate(), estimate, 2)
            .await
            .unwrap()
            .was_open
    );
    let charged = members(&[(0, ""), (1, ""), (2, ""), (3, ""), (4, "")]);
    // The newest ticket is remembered until the clock has passed it, as units may have been
    // removed.
    assert_eq!(key.members(), [&charged[..], &meta(4, 0)].concat());
    // What is reserved by `count` has a negative score, and stands beside what is remembered.
    let reserved = key.reserve(1).await;
    let open = [(START + 5).to_string(), format!("-{}", START + 5)];
    assert_eq!(key.members(), [&open[..], &charged, &meta(5, 0)].concat());
    assert!(
        key.store
            .settle(key.request(1).reserving(), reserved, 1)
            .await
            .unwrap()
            .was_open
    );
    // Until when it is blocked.
    key.block(600).await;
    let charged = members(&[(0, ""), (1, ""), (2, ""), (3, ""), (4, ""), (5, "")]);
    assert_eq!(
        key.members(),
        [&charged[..], &meta(5, START + 600)].concat()
    );
    assert!(key.store.unblock(key.request(1)).await.unwrap());
    assert_eq!(key.members(), [&charged[..], &meta(5, 0)].concat());
    assert_eq!(key.acquire(1).await, START + 6);
    // A ticket is not given again once its unit is refunded.
    assert!(key.store.refund(key.request(1), START + 6).await.unwrap());
    assert_eq!(key.members(), [&charged[..], &meta(6, 0)].concat());
    assert_eq!(key.acquire(1).await, START + 7);
    // An offence, and for how long it is remembered after its block.
    let growing = key
        .request(20)
        .with_growing_block(Duration::from_micros(600), Duration::from_secs(3_600));
    assert!(key.store.acquire(growing).await.unwrap().blocked);
    let charged = [charged, members(&[(7, "")])].concat();
    let strike = [
        format!("meta:{}:1:3600000000", START + 7),
        (5_000_000_000_000_000 + START + 600).to_string(),
    ];
    assert_eq!(key.members(), [&charged[..], &strike].concat());
    // Where the clock has passed all tickets, nothing is left to be remembered.
    assert!(key.store.unblock(key.request(1)).await.unwrap());
    key.pass(8);
    assert_eq!(key.acquire(1).await, START + 8);
    assert_eq!(key.members(), [charged, members(&[(8, "")])].concat());
}

/// The member beside the units: the newest ticket, and when the block ends, without strikes.
fn meta(newest: u64, end: u64) -> [String; 2] {
    [
        format!("meta:{}:0:0", START + newest),
        (5_000_000_000_000_000 + end).to_string(),
    ]
}

/// Members and scores of units, by their microseconds since the clock began and their mark.
fn members(units: &[(u64, &str)]) -> Vec<String> {
    let of =
        |&(at, mark): &(u64, &str)| [format!("{}{mark}", START + at), (START + at).to_string()];
    units.iter().flat_map(of).collect()
}

/// What is stored in the form of little-endian doubles after each of these. A form that is missing
/// in this table, or differs, is printed as a row of it.
#[rustfmt::skip]
const GOLDEN: &[(&str, &[i64])] = &[
    // The newest write; for each limit when its window began, and what is used of it and the last.
    ("sliding_counter, two limits", &[1_700_000_000_000_000, 1_700_000_000_000_000, 3, 0, 1_700_000_000_000_000, 3, 0]),
    ("sliding_counter, first", &[1_700_000_000_000_000, 1_700_000_000_000_000, 3, 0]),
    ("sliding_counter, again", &[1_700_000_000_000_007, 1_700_000_000_000_000, 5, 0]),
    ("sliding_counter, reserved", &[1_700_000_000_000_007, 1_700_000_000_000_000, 5, 0, 1, 0, 0, 0, 0]),
    ("sliding_counter, settled", &[1_700_000_000_000_008, 1_700_000_000_000_000, 6, 0]),
    ("sliding_counter, blocked", &[1_700_000_000_000_008, 1_700_000_000_000_000, 6, 0, 0, 0, 1_700_000_000_000_608, 0, 0]),
    ("sliding_counter, unblocked", &[1_700_000_000_000_008, 1_700_000_000_000_000, 6, 0]),
    ("sliding_counter, a strike", &[1_700_000_000_000_008, 1_700_000_000_000_000, 6, 0, 0, 0, 1_700_000_000_000_608, 1, 3_600_000_000]),
    ("sliding_counter, a strike that is remembered", &[1_700_000_060_000_009, 1_700_000_060_000_000, 1, 6, 0, 0, 1_700_000_000_000_608, 1, 3_600_000_000]),
    ("sliding_counter, under another max", &[1_700_000_000_000_001, 1_700_000_000_000_000, 4, 0]),
    ("sliding_counter, an open estimate", &[
        1_700_000_000_000_000, 1_700_000_000_000_000, 2, 0, 1_700_000_000_000_000, 2, 0,
    ]),
    ("sliding_counter, a large limit", &[1_700_000_000_000_000, 1_700_000_000_000_000, 3_000, 0]),
    ("sliding_counter, a large limit again", &[1_700_000_002_000_000, 1_700_000_000_000_000, 6_000, 0]),
    // The newest write; for each limit when its window was begun, when it ends, and what is used.
    ("fixed_window, two limits", &[1_700_000_000_000_000, 1_700_000_000_000_000, 1_700_000_060_000_000, 3, 1_700_000_000_000_000, 1_700_003_600_000_000, 3]),
    ("fixed_window, first", &[1_700_000_000_000_000, 1_700_000_000_000_000, 1_700_000_060_000_000, 3]),
    ("fixed_window, again", &[1_700_000_000_000_007, 1_700_000_000_000_000, 1_700_000_060_000_000, 5]),
    ("fixed_window, reserved", &[1_700_000_000_000_007, 1_700_000_000_000_000, 1_700_000_060_000_000, 5, 1, 0, 0, 0]),
    ("fixed_window, settled", &[1_700_000_000_000_008, 1_700_000_000_000_000, 1_700_000_060_000_000, 6]),
    ("fixed_window, blocked", &[1_700_000_000_000_008, 1_700_000_000_000_000, 1_700_000_060_000_000, 6, 0, 1_700_000_000_000_608, 0, 0]),
    ("fixed_window, unblocked", &[1_700_000_000_000_008, 1_700_000_000_000_000, 1_700_000_060_000_000, 6]),
    ("fixed_window, a strike", &[1_700_000_000_000_008, 1_700_000_000_000_000, 1_700_000_060_000_000, 6, 0, 1_700_000_000_000_608, 1, 3_600_000_000]),
    ("fixed_window, a strike that is remembered", &[1_700_000_060_000_009, 1_700_000_060_000_009, 1_700_000_120_000_009, 1, 0, 1_700_000_000_000_608, 1, 3_600_000_000]),
    ("fixed_window, under another max", &[1_700_000_000_000_001, 1_700_000_000_000_000, 1_700_000_060_000_000, 4]),
    ("fixed_window, an open estimate", &[
        1_700_000_000_000_000, 1_700_000_000_000_000, 1_700_000_060_000_000, 2,
        1_700_000_000_000_000, 1_702_592_000_000_000, 2,
    ]),
    ("fixed_window, a large limit", &[1_700_000_000_000_000, 1_700_000_000_000_000, 1_702_592_000_000_000, 3_000]),
    ("fixed_window, a large limit again", &[1_700_000_002_000_000, 1_700_000_000_000_000, 1_702_592_000_000_000, 6_000]),
    // The newest write; until when the levels count, below 0 as by a caller's clock; for each limit the level.
    ("bucket, two limits", &[1_700_000_000_000_000, -1_700_000_771_428_572, 180_000_000, 10_800_000_000]),
    ("bucket, first", &[1_700_000_000_000_000, -1_700_000_025_714_285, 180_000_000]),
    ("bucket, again", &[1_700_000_000_000_007, -1_700_000_120_000_007, 299_999_951]),
    ("bucket, reserved", &[1_700_000_000_000_007, -1_700_000_120_000_007, 299_999_951, 1, 0, 1_700_000_000_000_007, 0, 0, 0]),
    ("bucket, settled", &[1_700_000_000_000_008, -1_700_000_051_428_572, 359_999_944]),
    ("bucket, blocked", &[1_700_000_000_000_008, -1_700_000_051_428_572, 359_999_944, 0, 0, 0, 1_700_000_000_000_608, 0, 0]),
    ("bucket, unblocked", &[1_700_000_000_000_008, -1_700_000_051_428_572, 359_999_944]),
    ("bucket, a strike", &[1_700_000_000_000_008, -1_700_000_051_428_572, 359_999_944, 0, 0, 0, 1_700_000_000_000_608, 1, 3_600_000_000]),
    ("bucket, a strike that is remembered", &[1_700_000_060_000_009, -1_700_000_068_571_438, 60_000_000, 0, 0, 0, 1_700_000_000_000_608, 1, 3_600_000_000]),
    ("bucket, under another max", &[1_700_000_000_000_001, -1_700_000_120_000_001, 239_999_990]),
    ("bucket, an open estimate", &[
        1_700_000_000_000_000, -1_702_592_000_000_000, 120_000_000, 5_184_000_000_000, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 1, 0, 1_700_000_000_000_000, 60_000_000, 1, 0, 1_700_000_000_000_000,
        2_592_000_000_000,
    ]),
    ("bucket, a large limit", &[1_700_000_000_000_000, -1_700_000_008_824_575, 7_776_000_540_672_000]),
    ("bucket, a large limit again", &[1_700_000_002_000_000, -1_705_184_003_409_023, 13_454_849_081_344_000]),
    // As of other fixed windows.
    ("periods, first", &[1_700_000_000_000_007, 1_700_000_000_000_000, 1_700_006_400_000_000, 5, 1_700_000_000_000_000, 1_701_385_200_000_000, 5, 1_700_000_000_000_000, 1_700_001_000_000_000, 5, 1_700_000_000_000_000, 1_700_000_060_000_000, 5]),
    ("periods, later", &[1_700_001_000_000_007, 1_700_000_000_000_000, 1_700_006_400_000_000, 6, 1_700_000_000_000_000, 1_701_385_200_000_000, 6, 1_700_001_000_000_007, 1_700_004_600_000_000, 1, 1_700_001_000_000_007, 1_700_001_060_000_007, 1]),
    ("periods, blocked", &[1_700_001_000_000_007, 1_700_000_000_000_000, 1_700_006_400_000_000, 6, 1_700_000_000_000_000, 1_701_385_200_000_000, 6, 1_700_001_000_000_007, 1_700_004_600_000_000, 1, 1_700_001_000_000_007, 1_700_001_060_000_007, 1, 0, 0, 0, 0, 1_700_001_000_000_607, 0, 0]),
];

/// A number as the table writes it: `60_000_000`.
fn grouped(number: i64) -> String {
    let digits = number.abs().to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap())
        .collect();
    format!("{}{}", if number < 0 { "-" } else { "" }, groups.join("_"))
}

/// Compares what is stored with the table.
struct Forms(Vec<String>);

impl Forms {
    fn expect(&mut self, what: &str, key: &Key) {
        let stored = key.numbers();
        if !GOLDEN
            .iter()
            .any(|(of, golden)| *of == what && *golden == stored)
        {
            let row: Vec<_> = stored.iter().map(|number| grouped(*number)).collect();
            self.0
                .push(format!("    (\"{what}\", &[{}]),", row.join(", ")));
        }
    }

    fn are_written_down(self) {
        assert!(
            self.0.is_empty(),
            "these forms are stored, and are not in the table:\n{}",
            self.0.join("\n")
        );
    }
}

#[tokio::test]
async fn counters_and_buckets_have_the_bytes_that_are_written_down() {
    let mut forms = Forms(Vec::new());
    for &algorithm in ratelimit_conformance::ALGORITHMS
        .iter()
        .filter(|algorithm| **algorithm != Algorithm::SlidingWindow)
    {
        // Both buckets store the same.
        let name = algorithm
            .to_string()
            .replace("token_", "")
            .replace("leaky_", "");
        let key = Key::new(algorithm, &[Limit::per_minute(7), Limit::per_hour(14)]);
        let _ = key.acquire(3).await;
        forms.expect(&format!("{name}, two limits"), &key);

        let mut key = Key::new(algorithm, &[Limit::per_minute(7)]);
        let _ = key.acquire(3).await;
        forms.expect(&format!("{name}, first"), &key);
        key.pass(7);
        let _ = key.acquire(2).await;
        forms.expect(&format!("{name}, again"), &key);
        let reserved = key.reserve(1).await;
        forms.expect(&format!("{name}, reserved"), &key);
        key.pass(1);
        assert!(
            key.store
                .settle(key.request(1).reserving(), reserved, 1)
                .await
                .unwrap()
                .was_open
        );
        forms.expect(&format!("{name}, settled"), &key);
        key.block(600).await;
        forms.expect(&format!("{name}, blocked"), &key);
        assert!(key.store.unblock(key.request(1)).await.unwrap());
        forms.expect(&format!("{name}, unblocked"), &key);
        let growing = key
            .request(7)
            .with_growing_block(Duration::from_micros(600), Duration::from_secs(3_600));
        assert!(key.store.acquire(growing).await.unwrap().blocked);
        forms.expect(&format!("{name}, a strike"), &key);
        key.pass(MINUTE + 1);
        let _ = key.acquire(1).await;
        forms.expect(&format!("{name}, a strike that is remembered"), &key);

        key = Key::new(algorithm, &[Limit::per_minute(7)]);
        let _ = key.acquire(3).await;
        key.limits = vec![Limit::per_minute(10)];
        key.pass(1);
        let _ = key.acquire(1).await;
        forms.expect(&format!("{name}, under another max"), &key);

        let month = Duration::from_secs(30 * 86_400);
        key = Key::new(algorithm, &[Limit::per_minute(7), Limit::new(2, month)]);
        let _ = key.acquire(1).await;
        let _ = key.store.acquire(key.request(1).reserving_estimate()).await;
        forms.expect(&format!("{name}, an open estimate"), &key);

        // A bucket counts it in ticks of 2^21 microseconds.
        key = Key::new(algorithm, &[Limit::new(1_000_000_000, month)]);
        let _ = key.acquire(3_000).await;
        forms.expect(&format!("{name}, a large limit"), &key);
        key.pass(2_000_000);
        let _ = key.acquire(3_000).await;
        forms.expect(&format!("{name}, a large limit again"), &key);
    }
    forms.are_written_down();
}

/// A fixed window whose end is the midnight of its zone. A clock of 22:13 in UTC is past 23:13 in
/// Berlin and 3:43 of the next day in Kolkata.
#[tokio::test]
async fn calendar_periods_have_the_bytes_that_are_written_down() {
    let mut forms = Forms(Vec::new());
    let limits = [
        "10/day",
        "20/month@Europe/Berlin",
        "30/hour@Asia/Kolkata",
        "40/60s",
    ];
    let key = Key::new(
        Algorithm::FixedWindow,
        &limits.map(|limit| limit.parse().unwrap()),
    );
    let _ = key.acquire(3).await;
    key.pass(7);
    let _ = key.acquire(2).await;
    forms.expect("periods, first", &key);
    // The minute and the hour are over; the others go on.
    key.pass(1_700_001_000_000_000 - START);
    let _ = key.acquire(1).await;
    forms.expect("periods, later", &key);
    key.block(600).await;
    forms.expect("periods, blocked", &key);
    forms.are_written_down();
}

#[tokio::test]
async fn without_scripts_a_fixed_window_is_stored_as_a_number() {
    let mut key = Key::new(Algorithm::FixedWindow, &[Limit::per_minute(10)]);
    key.store = shared().store().mode(RedisMode::Transactions);
    let _ = key.acquire(3).await;
    assert_eq!(key.bytes("%plain"), 3_u64.to_be_bytes());
}

#[tokio::test]
async fn without_scripts_a_sliding_window_is_stored_as_a_sorted_set() {
    let mut key = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(10)]);
    key.store = key.store.mode(RedisMode::Transactions);
    let stored = format!("{}%log", key.name);
    let members = || -> Vec<String> {
        let listed = shared().cli(&["ZRANGE", &stored, "0", "-1", "WITHSCORES"]);
        listed.lines().map(str::to_owned).collect()
    };
    assert_eq!(key.acquire(2).await, START);
    let [first, second] = [START.to_string(), (START + 1).to_string()];
    assert_eq!(members(), [&*first, &first, &second, &second]);
    assert!(key.store.refund(key.request(2), START).await.unwrap());
    assert_eq!(members(), ["newest", &format!("-{second}")]);
    let left = shared().number(&["PTTL", &stored]);
    assert!((50_000..=61_001).contains(&left), "{left}");
}

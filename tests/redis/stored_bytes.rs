//! The bytes of every form in which a key is kept on Redis, as `guide/reference/redis_format.md`
//! describes them. Frozen from the first release on: a test here that fails is a new format.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]
#![allow(clippy::string_slice, reason = "hexadecimal digits")]

use std::time::Duration;

use crate::support::redis::shared;
use crate::support::unique;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, LogLayout, RedisMode, RedisStore, Store};

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
        let store = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone());
        Self { store, clock, name: unique("bytes"), algorithm, limits: limits.to_vec() }
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
        self.store.acquire(self.request(cost).reserving()).await.unwrap().ticket
    }

    async fn block(&self, micros: u64) {
        self.store.block(self.request(1), Duration::from_micros(micros)).await.unwrap();
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
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    /// The string as little-endian doubles.
    fn numbers(&self) -> Vec<u64> {
        let bytes = self.bytes("");
        assert_eq!(bytes.len() % 8, 0);
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
        bytes
            .chunks(8)
            .map(|bytes| {
                let number = number(bytes);
                assert!(number >= 0.0 && number.fract() == 0.0, "{number}");
                format!("{number}").parse().unwrap()
            })
            .collect()
    }

    /// The sorted set: members and scores.
    fn members(&self) -> Vec<String> {
        let all = shared().cli(&["ZRANGE", &self.name, "0", "-1", "WITHSCORES"]);
        all.lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_sorted_set() {
    let key = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(5)]);
    let _ = key.acquire(1).await;
    let newest = key.acquire(1).await;
    assert_eq!(key.members(), ["1700000000000000", "1700000000000000", "1700000000000001", "1700000000000000"]);
    key.block(600).await;
    let block = ["meta:0000000000000600:0000000000000000:0000", "6700000000000600"];
    assert_eq!(key.members()[4..], block);
    assert!(key.store.refund(key.request(1), newest).await.unwrap());
    let both = ["meta:0000000000000600:1700000000000001:0000", "6700000000000600"];
    assert_eq!(key.members(), [&["1700000000000000"; 2][..], &both[..]].concat());
    assert!(key.store.unblock(key.request(1)).await.unwrap());
    assert_eq!(key.members()[2..], ["meta:0000000000000000:1700000000000001:0000", "5000000000000000"]);
    assert_eq!(key.acquire(1).await, START + 2);
    assert_eq!(key.members().len(), 4);

    // A clock that begins late: as wide as any other.
    let early = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(5)]);
    early.clock.step_back(Duration::from_micros(START - 7));
    let _ = early.acquire(1).await;
    assert_eq!(early.members(), ["0000000000000007", "7"]);
}

#[tokio::test]
async fn a_ring() {
    let key = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(100), Limit::per_hour(1_000)]);
    let _ = key.acquire(3).await;
    let _ = key.reserve(5).await;
    let newest = hex(START + 1);
    let zero = hex(0);
    let head = [
        "010402",   // version, extras, two limits
        "04000000", // slots
        "00000000", // refunds
        &zero,      // by a client's clock, the expiry is written each time
        "00000000", // the first entry's
        "02000000", // entries
        &newest,    // newest ticket
        &hex(8),    // cost in the hour
    ];
    let view = ["00000000", &hex(8)].concat();
    let first = START.to_le_bytes()[..7].iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let second = (START + 1).to_le_bytes()[..7].iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    // 2^23 is added to the cost of what is reserved.
    let slots = [&first, "0000", "030000", &second, "0100", "050080", &"00".repeat(24)];
    // No block; no gap; of each limit, what is reserved.
    let extras = [&zero, &zero, &zero, "00000000", "00000000", &hex(5), &hex(5)];
    assert_eq!(key.hex(""), [head.concat(), view, slots.concat(), extras.concat()].concat());

    key.block(600).await;
    let stored = key.hex("");
    assert_eq!(stored[2 * 103..2 * 127], [hex(START + 600), hex(600), zero].concat());

    let wide = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(1 << 40)]);
    let _ = wide.acquire(1 << 39).await;
    let stored = wide.bytes("");
    assert_eq!((stored[1], stored.len()), (1, 43 + 4 * 21));
    let cost = [0, 0, 0, 0, 0x80, 0, 0];
    assert_eq!(stored[43..], [&START.to_le_bytes()[..7], &[0; 7], &cost, &[0; 3 * 21]].concat());
}

#[tokio::test]
async fn a_ring_that_grows_around_its_end() {
    let mut key = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(5_000)]);
    key.store = key.store.mode(RedisMode::ScriptsWith(LogLayout::Ring));
    for (count, micros) in [(300, MINUTE / 2), (500, MINUTE / 2), (1_017, 1)] {
        for _ in 0..count {
            let _ = key.acquire(1).await;
        }
        key.pass(micros);
    }
    // Flags, slots, the first entry's, entries; how many of them are before the gap, and how long
    // that is.
    let state = || {
        let bytes = key.bytes("");
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let gap = 43 + number(3) as usize * 12 + number(3) as usize / 256 * 24 + 24;
        let gap = if bytes[1] & 2 > 0 { Some((number(gap), number(gap + 4))) } else { None };
        (bytes[1], number(3), number(19), number(23), gap, bytes.len())
    };
    // Behind it is what was left by the growth before.
    assert_eq!(state(), (8, 1536, 812, 1517, None, 43 + 1536 * 12 + 6 * 24 + 40));
    let length = 43 + 2304 * 12 + 9 * 24 + 40;
    let _ = key.acquire(1).await;
    assert_eq!(state(), (14, 2304, 812, 1518, Some((1536 - 812, 768)), length));
    let _ = key.acquire(1).await;
    assert_eq!(state(), (14, 2304, 812 + 768, 1519, Some((0, 0)), length));
    let _ = key.acquire(1).await;
    assert_eq!(state(), (8, 2304, 812 + 768, 1520, None, length));
}

#[allow(clippy::cast_precision_loss, reason = "below 2^53")]
fn hex(number: u64) -> String {
    (number as f64).to_le_bytes().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[tokio::test]
async fn windows() {
    for (algorithm, state) in
        [(Algorithm::FixedWindow, vec![5, START + MINUTE]), (Algorithm::SlidingCounter, vec![5, 0, START])]
    {
        let key = Key::new(algorithm, &[Limit::per_minute(10)]);
        let _ = key.acquire(3).await;
        key.pass(7);
        let _ = key.acquire(2).await;
        assert_eq!(key.numbers(), state, "{algorithm:?}");
        key.block(600).await;
        assert_eq!(key.numbers(), [&state[..], &[START + 607, 600, 0]].concat(), "{algorithm:?}");
        assert!(key.store.unblock(key.request(1)).await.unwrap());
        assert_eq!(key.numbers(), state, "{algorithm:?}");
    }
    // The window before last is forgotten, the last one is not.
    let key = Key::new(Algorithm::SlidingCounter, &[Limit::per_minute(10), Limit::per_hour(20)]);
    let _ = key.acquire(3).await;
    key.pass(MINUTE + 1);
    let _ = key.acquire(2).await;
    assert_eq!(key.numbers(), [2, 3, START + MINUTE, 5, 0, START]);
}

/// A fixed window whose end is the midnight of its zone. A clock of 22:13 in UTC is past 23:13 in
/// Berlin and 3:43 of the next day in Kolkata.
#[tokio::test]
async fn calendar_periods() {
    const MIDNIGHT: u64 = 1_700_006_400_000_000;
    let limits = ["10/day", "20/month@Europe/Berlin", "30/hour@Asia/Kolkata", "40/60s"];
    let key = Key::new(Algorithm::FixedWindow, &limits.map(|limit| limit.parse().unwrap()));
    let _ = key.acquire(3).await;
    key.pass(7);
    let _ = key.acquire(2).await;
    let december = 1_701_385_200_000_000;
    let half_past = 1_700_001_000_000_000;
    let windows = [MIDNIGHT, december, half_past, START + MINUTE].map(|end| [5, end, START]);
    assert_eq!(key.numbers(), windows.as_flattened());
    // The minute and the hour are over; the others go on.
    key.pass(half_past - START);
    let _ = key.acquire(1).await;
    let now = half_past + 7;
    let windows =
        [[6, MIDNIGHT, START], [6, december, START], [1, half_past + 60 * MINUTE, now], [1, now + MINUTE, now]];
    assert_eq!(key.numbers(), windows.as_flattened());
    key.block(600).await;
    assert_eq!(key.numbers()[12..], [now + 600, 600, 0]);
}

#[tokio::test]
async fn buckets() {
    // A token takes 6 seconds; in 7 microseconds, 7 of 6,000,000 parts of one come.
    let key = Key::new(Algorithm::TokenBucket, &[Limit::per_minute(10)]);
    let _ = key.acquire(3).await;
    key.pass(7);
    let _ = key.acquire(2).await;
    assert_eq!(key.numbers(), [START + 7, 4, MINUTE / 10 - 7, 10, 0, START]);

    let key = Key::new(Algorithm::LeakyBucket, &[Limit::per_minute(7)]);
    let _ = key.acquire(3).await;
    key.pass(7);
    let _ = key.acquire(2).await;
    // 5 times 60,000,000 / 7.
    assert_eq!(key.numbers(), [START + 7, START + 42_857_142, 6, 7, 0, START]);
    // An offence, which is the first.
    let _ = key.store.acquire(key.request(7).with_block(Duration::from_micros(600))).await.unwrap();
    assert_eq!(key.numbers()[6..], [START + 607, 600, 1]);

    let key = Key::new(Algorithm::LeakyBucket, &[Limit::per_minute(7), Limit::per_hour(14)]);
    let _ = key.acquire(1).await;
    let levels = [START + 8_571_428, 4, START + 257_142_857, 1];
    assert_eq!(key.numbers(), [&[START], &levels[..], &[7, 14, 0, START]].concat());
}

#[tokio::test]
async fn a_bucket_under_another_max() {
    let mut key = Key::new(Algorithm::LeakyBucket, &[Limit::per_minute(7)]);
    let _ = key.acquire(3).await;
    key.pass(7);
    let _ = key.acquire(2).await;
    assert_eq!(key.numbers(), [START + 7, START + 42_857_142, 6, 7, 0, START]);
    // A rest is one whole, and earlier charges are not refunded.
    key.limits = vec![Limit::per_minute(10)];
    key.pass(1);
    let _ = key.acquire(1).await;
    assert_eq!(key.numbers(), [START + 8, START + 42_857_143 + 6_000_000, 0, 10, 0, START + 8]);
}

/// By the server's clock, a bucket notes until when its expiry is written; what is written in
/// between leaves it.
#[tokio::test]
async fn the_expiry_of_a_bucket() {
    let mut key = Key::new(Algorithm::LeakyBucket, &[Limit::per_minute(60)]);
    key.store = RedisStore::new(&shared().url()).unwrap();
    let _ = key.acquire(1).await;
    let first = key.numbers();
    assert!((first[1]..=first[1] + 1).contains(&first[4]), "until it is empty: {first:?}");
    let _ = key.acquire(1).await;
    let second = key.numbers();
    assert_eq!(second[4], second[0] + 2 * MINUTE, "two windows");
    let left = shared().number(&["PTTL", &key.name]);
    assert!((110_000..=120_000).contains(&left), "{left}");
    let _ = key.acquire(1).await;
    let third = key.numbers();
    assert_eq!(third[3..], second[3..]);
    assert!(third[0] > second[0]);
}

#[tokio::test]
async fn reservations_beside_counters() {
    let key = Key::new(Algorithm::FixedWindow, &[Limit::per_minute(10)]);
    let _ = key.reserve(3).await;
    key.pass(MINUTE / 2);
    let _ = key.reserve(2).await;
    let now = START + MINUTE / 2;
    assert_eq!(key.numbers(), [0, now + MINUTE, 5, START, 0, START, now + MINUTE]);
    key.pass(MINUTE / 2);
    let newest = key.reserve(1).await;
    let then = START + MINUTE;
    assert_eq!(key.numbers(), [0, then + MINUTE, 1, then, 5, START, then + MINUTE]);
    assert!(key.store.commit(key.request(1).reserving(), newest).await.unwrap());
    assert_eq!(key.numbers(), [1, then + MINUTE, 0, then, 5, START, then + MINUTE]);
    key.block(600).await;
    assert_eq!(key.numbers()[2..6], [then + 600, 600, 0, 0]);
    assert!(key.store.release(key.request(5).reserving(), now).await.unwrap());
    assert_eq!(key.numbers(), [1, then + MINUTE, then + 600, 600, 0]);
}

/// An offence after another: how long the block was given, and the strikes beside it, which outlive
/// the block and what is admitted after it.
#[tokio::test]
async fn strikes() {
    const AGAIN: u64 = START + 600 + MINUTE;
    let offend = async |key: &Key| {
        let range = (Duration::from_micros(600), Duration::from_secs(3_600));
        key.store.acquire(key.request(1).with_growing_block(range.0, range.1)).await.unwrap()
    };
    let key = Key::new(Algorithm::FixedWindow, &[Limit::per_minute(1)]);
    let _ = key.acquire(1).await;
    assert!(offend(&key).await.blocked);
    assert_eq!(key.numbers(), [1, START + MINUTE, START + 600, 600, 1]);
    key.pass(600);
    assert!(offend(&key).await.blocked);
    assert_eq!(key.numbers(), [1, START + MINUTE, START + 1_800, 1_200, 2]);
    key.pass(MINUTE);
    assert!(offend(&key).await.allowed);
    assert_eq!(key.numbers(), [1, AGAIN + MINUTE, START + 1_800, 1_200, 2]);

    let key = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(1)]);
    let _ = key.acquire(1).await;
    assert!(offend(&key).await.blocked);
    let meta = ["meta:0000000000000600:0000000000000000:0001", "6700000000000600"];
    assert_eq!(key.members()[2..], meta);
    key.pass(600);
    assert!(offend(&key).await.blocked);
    let meta = ["meta:0000000000001200:0000000000000000:0002", "6700000000001800"];
    assert_eq!(key.members()[2..], meta);
    key.pass(MINUTE);
    assert!(offend(&key).await.allowed);
    let members = key.members();
    assert_eq!(members[members.len() - 2..], meta);
    assert_eq!(members[members.len() - 4], AGAIN.to_string());
}

#[tokio::test]
async fn a_counter_without_scripts() {
    let mut key = Key::new(Algorithm::FixedWindow, &[Limit::per_minute(10)]);
    key.store = RedisStore::new(&shared().url()).unwrap().mode(RedisMode::Transactions);
    let ticket = key.acquire(3).await;
    let stored = key.bytes("%plain");
    assert_eq!(stored, [3_u64.to_be_bytes(), ticket.to_be_bytes()].concat());
    assert!(0 < ticket && ticket < 1 << 52);
}

/// What the first admission under a limit of five a minute stores, of every algorithm that there
/// is.
#[tokio::test]
async fn the_first_admission_of_every_algorithm_is_stored_as_it_always_was() {
    const REFILL: u64 = MINUTE / 5;
    let at = START;
    let golden = [
        ("sliding_window", vec![at, at]),
        ("sliding_counter", vec![1, 0, at]),
        ("fixed_window", vec![1, at + MINUTE]),
        ("token_bucket", vec![at, 1, 0, 5, 0, at]),
        ("leaky_bucket", vec![at, at + REFILL, 0, 5, 0, at]),
    ];
    for &algorithm in Algorithm::ALL {
        let name = algorithm.to_string();
        let golden = golden.iter().find(|(golden, _)| *golden == name);
        let (_, golden) = golden.unwrap_or_else(|| panic!("what {name} stores is not written down here"));
        let key = Key::new(algorithm, &[Limit::per_minute(5)]);
        key.acquire(1).await;
        let is_set = shared().cli(&["TYPE", &key.name]) == "zset";
        let stored =
            if is_set { key.members().iter().map(|member| member.parse().unwrap()).collect() } else { key.numbers() };
        assert_eq!(stored, *golden, "{name}");
    }
}

//! Values of counters and buckets that no script has written, or that a clock has left behind: none
//! of them admits for ever, none fails the keys beside it, and none outlives a horizon.

use std::time::Duration;

use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::testkit::{FakeClock, scripts};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store as _};

use super::batches::{Said, ask, keys, question};
use super::scripts::loaded;
use crate::support::redis::shared;
use crate::support::unique;

const START: u64 = 1_700_000_000_000_000;
/// The limit of [`question`], 5 in this time.
const WINDOW: u64 = 3_000_000_000;
const NAN: f64 = f64::NAN;

/// What may come of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    /// As if the key were new.
    Admits,
    /// What is stored is taken for true.
    Refuses,
    /// By a block.
    Blocks,
    /// The key fails, and is not touched.
    Fails,
}

#[allow(clippy::cast_precision_loss, reason = "below 2^53")]
fn rows() -> Vec<(Algorithm, &'static str, Vec<f64>, Then)> {
    use Algorithm::{FixedWindow, LeakyBucket, SlidingCounter, TokenBucket};
    use Then::{Admits, Blocks, Fails, Refuses};
    let (now, window) = (START as f64, WINDOW as f64);
    let (end, token) = (now + window, window / 5.0);
    // Level, rest, and the rest of a bucket that was written now.
    let bucket = |newest: f64, level: f64, rest: f64, max: f64, first: f64| vec![newest, level, rest, max, 0.0, first];
    let with = |mut value: Vec<f64>, extra: &[f64]| {
        value.extend(extra);
        value
    };
    let mut rows = vec![
        (FixedWindow, "used: full", vec![5.0, end], Refuses),
        (FixedWindow, "used: NaN", vec![NAN, end], Fails),
        (FixedWindow, "used: too large", vec![1e15, end], Refuses),
        (FixedWindow, "used: endless", vec![f64::INFINITY, end], Fails),
        (FixedWindow, "used: negative", vec![-1.0, end], Fails),
        (FixedWindow, "end: over", vec![5.0, now], Admits),
        (FixedWindow, "end: NaN", vec![5.0, NAN], Fails),
        (FixedWindow, "end: far off, as of a clock set back", vec![5.0, end + 1e12], Refuses),
        (FixedWindow, "end: endless", vec![5.0, f64::INFINITY], Fails),
        (FixedWindow, "cut short", vec![5.0], Fails),
        (FixedWindow, "too long", vec![5.0, end, 0.0], Fails),
        (SlidingCounter, "used: full", vec![5.0, 0.0, now], Refuses),
        (SlidingCounter, "used: NaN", vec![NAN, 0.0, now], Fails),
        (SlidingCounter, "used: too large", vec![1e15, 0.0, now], Refuses),
        (SlidingCounter, "previous: NaN", vec![0.0, NAN, now], Fails),
        (SlidingCounter, "previous: a product from 2^53 on", vec![0.0, 1e9, now], Refuses),
        (SlidingCounter, "previous: negative", vec![0.0, -1.0, now], Fails),
        (SlidingCounter, "start: two windows ago", vec![5.0, 5.0, now - 2.0 * window], Admits),
        (SlidingCounter, "start: ahead, as of a clock set back", vec![5.0, 0.0, now + 1e12], Refuses),
        (SlidingCounter, "start: NaN", vec![5.0, 0.0, NAN], Fails),
    ];
    for (algorithm, full, level, ahead) in
        [(LeakyBucket, end, now + 4.0 * token, end + 1e12), (TokenBucket, 5.0, 4.0, 5.0)]
    {
        rows.extend([
            (algorithm, "level: full", bucket(now, full, 0.0, 5.0, now), Refuses),
            (algorithm, "level: one is free", bucket(now, level, 0.0, 5.0, now), Admits),
            (algorithm, "level: NaN", bucket(now, NAN, 0.0, 5.0, now), Fails),
            (algorithm, "level: endless", bucket(now, f64::INFINITY, 0.0, 5.0, now), Fails),
            (algorithm, "rest: NaN", bucket(now, full, NAN, 5.0, now), Fails),
            (algorithm, "rest: more than a whole", bucket(now, full, 1e9, 5.0, now), Refuses),
            (algorithm, "newest: ahead, as of a clock set back", bucket(now + 1e12, ahead, 0.0, 5.0, now), Refuses),
            (algorithm, "newest: NaN", bucket(NAN, full, 0.0, 5.0, now), Fails),
            (algorithm, "max: another", bucket(now, full, 0.0, 7.0, now), Refuses),
            (algorithm, "max: NaN", bucket(now, full, 0.0, NAN, now), Fails),
            (algorithm, "first ticket: ahead", bucket(now, full, 0.0, 5.0, now + 1e12), Refuses),
            (algorithm, "cut short", vec![now, full, 0.0, 5.0], Fails),
        ]);
    }
    let empty = [
        (FixedWindow, vec![0.0, 0.0]),
        (SlidingCounter, vec![0.0, 0.0, 0.0]),
        (LeakyBucket, bucket(0.0, 0.0, 0.0, 5.0, now)),
        (TokenBucket, bucket(0.0, 0.0, 0.0, 5.0, now)),
    ];
    for (algorithm, value) in empty {
        rows.extend([
            (algorithm, "nothing used", value.clone(), Admits),
            (algorithm, "block: on", with(value.clone(), &[now + 9.0, 9.0, 1.0]), Blocks),
            (algorithm, "block: over", with(value.clone(), &[now, 9.0, 1.0]), Admits),
            (algorithm, "block: longer than given", with(value.clone(), &[now + 1e12, 9.0, 1.0]), Blocks),
            (algorithm, "block: an end that is NaN", with(value.clone(), &[NAN, 9.0, 1.0]), Admits),
            (algorithm, "block: endless", with(value.clone(), &[f64::INFINITY, f64::INFINITY, 1.0]), Fails),
            (algorithm, "reserved: full", with(value.clone(), &[5.0, now, 0.0, now, end]), Refuses),
            (algorithm, "reserved: lapsed", with(value.clone(), &[5.0, now - 9.0, 0.0, now - 9.0, now]), Admits),
            (algorithm, "reserved: NaN", with(value.clone(), &[NAN, now, 0.0, now, end]), Fails),
            (algorithm, "reserved: endless", with(value, &[1.0, now, 0.0, now, f64::INFINITY]), Fails),
        ]);
    }
    // Levels that a bucket has in units of tokens do not fit a leaky one's time.
    rows.push((TokenBucket, "level: negative", bucket(now, -1.0, 0.0, 5.0, now), Admits));
    rows.push((LeakyBucket, "level: long empty", bucket(now, -1.0, 0.0, 5.0, now), Admits));
    rows
}

#[test]
fn a_value_that_no_script_has_written_is_bounded() {
    let server = shared();
    for (algorithm, what, value, then) in rows() {
        let script = loaded(scripts::whole(algorithm));
        let keys = keys("damaged");
        let bytes: Vec<u8> = value.iter().flat_map(|number| number.to_le_bytes()).collect();
        let set: [&[u8]; 5] = [b"SET", keys[1].as_bytes(), &bytes, b"PX", b"100000000000"];
        assert_eq!(server.cli(&set), "OK");
        let said = ask(server, &script, &keys, Some(START), &[question(algorithm, 1, 1, 3)]);
        let [first, found, last] = said.as_slice() else { panic!("{algorithm}, {what}: {said:?}") };
        assert!(first.is_admitted() && last.is_admitted(), "{algorithm}, {what}: {said:?}");
        let found = match found {
            Said::Record(1, ..) => Then::Admits,
            Said::Record(0, ..) => Then::Refuses,
            Said::Record(2, ..) => Then::Blocks,
            _ => Then::Fails,
        };
        assert_eq!(found, then, "{algorithm}, {what}: {said:?}");
        if let Said::Record(_, _, numbers) = &said[1] {
            assert!(numbers.iter().all(|number| number.is_finite()), "{algorithm}, {what}: {numbers:?}");
            assert!((0.0..=5.0).contains(&numbers[0]), "{algorithm}, {what}: {numbers:?}");
        }
        if what.contains("set back") {
            // What is left of it is cut to what it would be, had it been written now.
            let left = server.number(&["PTTL", &keys[1]]);
            let horizon = i64::try_from(2 * WINDOW / 1_000).unwrap();
            assert!((1..=horizon + 1).contains(&left), "{algorithm}, {what}: {left} ms");
        }
    }
}

/// Strikes that no script has written: the next block is never longer than the longest, and what is
/// used up admits nothing.
#[tokio::test]
async fn strikes_that_no_script_has_written_are_bounded() {
    // Longer than any of these limits refuses.
    const LONGEST: u64 = 4 * WINDOW;
    let server = shared();
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let now = START as f64;
    for (algorithm, state) in
        [(Algorithm::FixedWindow, vec![5.0, now + 3e9]), (Algorithm::SlidingCounter, vec![5.0, 0.0, now])]
    {
        for strikes in [0.0, 1.0, 0.5, -1.0, -1e300, 9_999.0, 1e15, 1e300, f64::INFINITY, NAN] {
            let what = format!("{algorithm}, {strikes} strikes");
            let key = unique("strikes");
            let value = [&state[..], &[now - 9.0, 9.0, strikes]].concat();
            let bytes: Vec<u8> = value.iter().flat_map(|number| number.to_le_bytes()).collect();
            let set: [&[u8]; 5] = [b"SET", key.as_bytes(), &bytes, b"PX", b"100000000000"];
            assert_eq!(server.cli(&set), "OK");
            let clock = FakeClock::new();
            let store = RedisStore::new(&server.url()).unwrap().with_clock(clock).deny_cache(false);
            let limits = [Limit::new(5, Duration::from_micros(WINDOW))];
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            let growing = request.with_growing_block(Duration::from_secs(1), Duration::from_micros(LONGEST));
            match store.acquire(growing).await {
                Ok(refused) => {
                    assert!(!refused.allowed, "{what}: {refused:?}");
                    let bound = if refused.blocked { LONGEST } else { 2 * WINDOW };
                    assert!((1..=bound).contains(&refused.retry_after_us), "{what}: {refused:?}");
                }
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{what}: {error}"),
            }
            let left = server.number(&["PTTL", &key]);
            assert!(left > 0, "{what}: {left} ms");
        }
    }
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % below
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Any bytes at one key of a call, with every operation: the call is answered, and so are the keys
/// beside it.
#[test]
fn any_bytes_at_a_key_leave_the_keys_beside_it_alone() {
    let server = shared();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let now = START as f64;
    let likely = [0.0, 0.0, 1.0, 2.0, 5.0, 5.0, now, now - 1e6, now + 1e6];
    let odd = [-1.0, NAN, f64::INFINITY, 1e300, 5e-324, 9_007_199_254_740_992.0, 0.5];
    for algorithm in Algorithm::ALL.iter().copied().filter(|algorithm| *algorithm != Algorithm::SlidingWindow) {
        let script = loaded(scripts::whole(algorithm));
        let mut tally = [0_u32; 2];
        for _ in 0..400 {
            let keys = keys("bytes");
            let doubles = random.of(&[0, 1, 2, 3, 5, 6, 6, 7, 8, 9, 11]);
            let number = |_| if random.below(8) == 0 { random.of(&odd) } else { random.of(&likely) };
            let mut bytes: Vec<u8> = (0..doubles).map(number).flat_map(f64::to_le_bytes).collect();
            if random.below(8) == 0 {
                bytes.truncate(random.below(80));
            }
            let set: [&[u8]; 5] = [b"SET", keys[1].as_bytes(), &bytes, b"PX", b"60000"];
            assert_eq!(server.cli(&set), "OK");
            let operation = random.of(&[1, 2, 3]);
            let said = ask(server, &script, &keys, Some(START), &[question(algorithm, operation, 1, 3)]);
            assert_eq!(said.len(), 3, "{algorithm}, {bytes:?}: {said:?}");
            assert!(said[0].is_admitted() && said[2].is_admitted(), "{algorithm}, {bytes:?}: {said:?}");
            match &said[1] {
                Said::Record(_, _, numbers) => {
                    assert!(numbers.iter().all(|number| number.is_finite()), "{algorithm}, {bytes:?}: {numbers:?}");
                    tally[0] += 1;
                }
                Said::Failed(message) => {
                    assert!(message.contains("WRONGTYPE"), "{algorithm}, {bytes:?}: {message}");
                    tally[1] += 1;
                }
            }
        }
        assert!(tally.iter().all(|count| *count > 5), "{algorithm}: {tally:?}");
    }
}

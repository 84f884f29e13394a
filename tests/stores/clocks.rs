//! Clocks at both ends of time. A machine whose clock is set to before 1970 is at 0 for ever.

use std::time::{Duration, SystemTime};

use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{MemoryStore, Store as _};

use crate::support::redis::shared;
use crate::support::unique;
use crate::units::{ALGORITHMS, DAY, MINUTE, micros, per};

#[test]
fn a_fake_clock_stops_at_both_ends() {
    let clock = FakeClock::new();
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), micros(u64::MAX));
    clock.advance(micros(1));
    assert_eq!(clock.now(), micros(u64::MAX));
    clock.step_back(Duration::MAX);
    assert_eq!(clock.now(), Duration::ZERO);
    clock.step_back(micros(1));
    assert_eq!(clock.now(), Duration::ZERO);
}

/// Shows one time, whatever it is.
struct Standing(Duration);

impl Clock for Standing {
    fn now(&self) -> Duration {
        self.0
    }
}

#[tokio::test]
async fn a_memory_clock_that_stands_at_an_end_of_time_admits_no_more() {
    let year = 366 * DAY;
    let (first, last) = (Duration::ZERO, Duration::MAX);
    for now in [
        first,
        micros(u64::MAX),
        micros(u64::MAX - MINUTE),
        micros(1 << 63),
        micros(1 << 62),
        last,
    ] {
        for &algorithm in ALGORITHMS {
            for limits in [[per(3, MINUTE)], [per(3, year)]] {
                let store = MemoryStore::new().with_clock(Standing(now));
                let request = Request::new(b"key", algorithm, &limits).with_block(micros(year));
                for left in [2, 1, 0] {
                    let admitted = store.acquire(request).await.unwrap();
                    assert_eq!(
                        (admitted.allowed, admitted.remaining),
                        (true, left),
                        "{algorithm:?} at {now:?}"
                    );
                }
                for _ in 0..3 {
                    assert!(
                        store.acquire(request).await.unwrap().blocked,
                        "{algorithm:?} at {now:?}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_store_on_redis_may_go_by_a_clock_that_shows_any_time_since_1970() {
    let (clock, limits) = (FakeClock::new(), [per(3, MINUTE)]);
    let store = shared().store().with_clock(clock.clone());
    for now in [1, 999_999, 1_000_000, 1_000_001, 1 << 51] {
        clock.set(SystemTime::UNIX_EPOCH + micros(now));
        for &algorithm in ALGORITHMS {
            let key = unique("since 1970");
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            for admits in [true, true, true, false] {
                let admitted = store.acquire(request).await.unwrap().allowed;
                assert_eq!(admitted, admits, "{algorithm:?} at {now}");
            }
        }
    }
}

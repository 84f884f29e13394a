//! Clocks at both ends of time. A machine whose clock is set to before 1970 is at 0 for ever.

use std::time::{Duration, SystemTime};

use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, MemoryStore, Store};

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

/// On Redis the key outlives that by a second, as its server's clock is another; and a double may
/// have rounded it to the microsecond before.
#[tokio::test]
async fn a_bucket_whose_max_falls_counts_until_it_has_drained_by_the_old_rate() {
    let clock = FakeClock::new();
    let memory = MemoryStore::new().with_clock(clock.clone());
    let redis = shared().store().deny_cache(false).with_clock(clock.clone());
    let stores: [(Box<dyn Store>, _); 2] =
        [(Box::new(memory), MINUTE), (Box::new(redis), MINUTE + 1)];
    for (store, until) in stores {
        let (key, limits) = (unique("falls"), [100, 1].map(|max| [per(max, MINUTE)]));
        let [full, fallen] = limits
            .each_ref()
            .map(|limits| Request::new(key.as_bytes(), Algorithm::TokenBucket, limits));
        assert!(store.acquire(full.with_cost(100)).await.unwrap().allowed);
        for wait in [until, 1] {
            for refused in [store.peek(fallen).await, store.acquire(fallen).await] {
                let refused = refused.unwrap();
                let times = [refused.retry_after_us, refused.reset_after_us];
                assert_eq!((refused.allowed, times), (false, [wait; 2]));
            }
            clock.advance(micros((wait - 1).max(1)));
        }
        assert!(store.acquire(fallen).await.unwrap().allowed);
    }
}

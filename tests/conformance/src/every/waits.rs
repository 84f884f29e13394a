//! When units come free: to the microsecond, from the shortest window to the longest.

use std::time::{Duration, Instant};

use crate::bench::{Bench, HOUR, MICROSECOND, MINUTE, SECOND};
use ratelimit_runtime::{Algorithm, Limit};

/// The shortest window works as the long ones do.
pub(crate) async fn a_window_of_a_millisecond(bench: Bench, algorithm: Algorithm) {
    const WINDOW: Duration = Duration::from_millis(1);
    for attempt in 0..200 {
        let bucket = bench.bucket_under(&attempt.to_string(), algorithm, &[Limit::new(1, WINDOW)]);
        let asked = Instant::now();
        bucket.admit(1).await;
        let second = bucket.acquire(1).await;
        // A store may also forget by a real clock, and real time passes here.
        if asked.elapsed() < WINDOW {
            assert!(!second.allowed, "attempt {attempt}");
            let waits = WINDOW..=bucket.horizon();
            assert!(
                second
                    .retry_after()
                    .is_some_and(|wait| waits.contains(&wait)),
                "{second:?}"
            );
        }
        bucket.advance(bucket.horizon());
        bucket.admit(1).await;
    }
}

/// The longest window works as the short ones do.
pub(crate) async fn a_window_of_366_days(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket_under("", algorithm, &[Limit::new(2, Limit::MAX_WINDOW)]);
    bucket.admit(1).await;
    bucket.advance(HOUR);
    bucket.admit(1).await;
    for _ in 0..3 {
        let refused = bucket.refused(1).await;
        bucket.wait_out(&refused, 1).await;
        while bucket.acquire(1).await.allowed {}
    }
}

/// Of a sliding window: each unit of cost has a microsecond of its own, those that are admitted at
/// once the ones that follow; so a heavy call comes free unit by unit.
pub(crate) async fn a_heavy_call_comes_free_unit_by_unit(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 5);
    let start = bench.now();
    assert_eq!(bucket.admitted(2).await.ticket, start);
    assert_eq!(bucket.admitted(1).await.ticket, start + 2);
    bucket.advance(SECOND);
    assert_eq!(bucket.admitted(2).await.ticket, start + 1_000_000);
    // The highest cost comes first: a layer may repeat a refusal to calls that cost no less.
    for (cost, free_after) in [(5, 1_000_001), (4, 1_000_000), (3, 2), (2, 1), (1, 0)] {
        let refused = bucket.refused(cost).await;
        assert_eq!(
            refused.retry_after_us,
            59_000_000 + free_after,
            "{cost}: {refused:?}"
        );
        assert_eq!(refused.reset_after_us, 60_000_001, "{refused:?}");
    }
    bucket.advance(MINUTE - SECOND);
    for left in 1..=3 {
        assert_eq!(bucket.remaining().await, left);
        bucket.advance(MICROSECOND);
    }
    assert_eq!(bucket.remaining().await, 3);
}

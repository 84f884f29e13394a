//! Clocks that step back or jump ahead, under every algorithm.

use std::time::{Duration, Instant};

use crate::rule::{Algorithm, Limit};
use crate::testkit::conformance::bench::{Bench, HOUR, MICROSECOND, MINUTE, SECOND};
use crate::testkit::conformance::test_key::TestKey;

/// A clock that steps back, by however much, frees nothing, and no wait is longer than the horizon.
pub(in crate::testkit::conformance) async fn a_clock_that_steps_back_frees_nothing(bench: Bench, algorithm: Algorithm) {
    for (nth, step) in [MICROSECOND, SECOND * 30, MINUTE, HOUR, HOUR * 24 * 365].into_iter().enumerate() {
        let bucket = bench.bucket(&nth.to_string(), algorithm, 3);
        for _ in 0..2 {
            bucket.admit(1).await;
        }
        bench.clock.step_back(step);
        // One was left, and one is admitted.
        let mut passed = 0;
        for _ in 0..5 {
            passed += u32::from(bucket.acquire(1).await.allowed);
        }
        assert_eq!(passed, 1, "after a step of {step:?}");
        let refused = bucket.refused(1).await;
        // A store that forgets by whole milliseconds of its own clock rounds up at both ends.
        let longest = bucket.horizon() + Duration::from_millis(2);
        assert!(refused.retry_after().is_some_and(|wait| wait <= longest), "{refused:?} after a step of {step:?}");
        assert!(Duration::from_micros(refused.reset_after_us) <= longest, "{refused:?} after a step of {step:?}");
        // Once the clock has caught up and the horizon has passed, nothing is left of all this.
        bench.clock.advance(step + bucket.horizon() * 2);
        bucket.assert_whole().await;
    }
}

/// Time that the clock takes back does not count: while it goes to and fro, nothing is admitted
/// that has not been waited for.
pub(in crate::testkit::conformance) async fn a_clock_that_goes_to_and_fro_frees_nothing(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 4);
    for _ in 0..4 {
        bucket.admit(1).await;
    }
    for _ in 0..50 {
        bench.clock.step_back(SECOND * 5);
        bucket.refuse(1).await;
        bench.clock.advance(SECOND * 5);
        bucket.refuse(1).await;
    }
}

/// A clock that steps back keeps no key longer than a horizon from then on.
pub(in crate::testkit::conformance) async fn a_clock_that_steps_back_keeps_no_key_longer(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket_under("", algorithm, &[Limit::new(1, Duration::from_millis(40))]);
    bucket.admit(1).await;
    bench.clock.step_back(HOUR);
    let _ = bucket.acquire(1).await;
    bucket.advance(bucket.horizon());
    // A store may forget by a real clock, so real time has to pass as well.
    let asked = Instant::now();
    while !bucket.acquire(1).await.allowed {
        assert!(asked.elapsed() < SECOND * 10, "it was over long ago");
        tokio::task::yield_now().await;
    }
}

/// After the clock has jumped ahead, every key has its full limit again.
pub(in crate::testkit::conformance) async fn a_clock_that_jumps_ahead_finds_keys_whole(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 3);
    for jump in [bucket.horizon(), MINUTE * 3, HOUR * 24 * 365] {
        for _ in 0..3 {
            bucket.admit(1).await;
        }
        bucket.refuse(1).await;
        bench.clock.advance(jump);
        bucket.assert_whole().await;
    }
}

/// For a sliding window: a clock that steps back, by however much, frees nothing before its time
/// has really passed.
pub(in crate::testkit::conformance) async fn what_was_admitted_before_a_step_back_counts_for_its_time(
    bench: Bench,
    algorithm: Algorithm,
) {
    for (nth, step) in [MICROSECOND, SECOND * 30, MINUTE, HOUR, HOUR * 24 * 365].into_iter().enumerate() {
        let bucket = bench.bucket(&nth.to_string(), algorithm, 3);
        for _ in 0..2 {
            bucket.admit(1).await;
            bucket.advance(SECOND);
        }
        bench.clock.step_back(step);

        // Of three slots one was taken 2 s ago, one 1 s ago, and one is left.
        bucket.admit(1).await;
        assert_refused_for_a_window_at_most(&bucket, step).await;
        bucket.advance(SECOND * 58 - MICROSECOND);
        assert_refused_for_a_window_at_most(&bucket, step).await;

        // Once the clock has caught up and a window has passed, nothing of all this is left.
        bucket.advance(step + MINUTE * 2);
        for left in [2, 1, 0] {
            assert_eq!(bucket.admitted(1).await.remaining, left, "after a step of {step:?}");
            bucket.advance(SECOND);
        }
        assert_refused_for_a_window_at_most(&bucket, step).await;
    }
}

async fn assert_refused_for_a_window_at_most(bucket: &TestKey<'_>, step: Duration) {
    // A store that forgets by whole milliseconds of its own clock rounds up at both ends.
    let longest = MINUTE + Duration::from_millis(2);
    let refused = bucket.refused(1).await;
    assert!(refused.retry_after().is_some_and(|wait| wait <= longest), "{refused:?} after a step of {step:?}");
    assert!(Duration::from_micros(refused.reset_after_us) <= longest, "{refused:?} after a step of {step:?}");
}

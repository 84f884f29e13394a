//! When slots come free, and what the clock may do.

use std::time::{Duration, Instant};

use super::{Bench, Bucket, HOUR, MICROSECOND, MINUTE, SECOND};
use crate::MAX_WINDOW;
use crate::store::{Store, Verdict};

/// `retry_after` is exact: a microsecond earlier the call is still refused, and then it is admitted.
pub async fn a_refusal_names_the_exact_moment<S: Store>(bench: Bench<S>) {
    for window in [SECOND * 10, MINUTE, HOUR + Duration::from_micros(1_001)] {
        let mut bucket = bench.bucket(&window.as_micros().to_string(), 2, window);
        bucket.admit().await;
        bucket.advance(SECOND);
        bucket.admit().await;
        bucket.advance(SECOND);
        for _ in 0..6 {
            let refused = bucket.acquire().await;
            assert!(!refused.allowed);
            bucket.advance(refused.retry_after() - MICROSECOND);
            let too_early = bucket.acquire().await;
            assert_eq!((too_early.allowed, too_early.retry_after()), (false, MICROSECOND));
            bucket.advance(MICROSECOND);
            assert!(bucket.acquire().await.allowed);
        }
    }
}

/// What was used at `t` is free at `t + window`, each on its own.
pub async fn slots_come_free_one_by_one<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 5, MINUTE);
    let gaps = [1_000, 7, 5_000_000, 1, 999_999].map(Duration::from_micros);
    for gap in gaps {
        assert!(bucket.acquire().await.allowed);
        bucket.advance(gap);
    }
    let since_first: Duration = gaps.iter().sum();
    bucket.advance(MINUTE - since_first - MICROSECOND);
    assert!(!bucket.acquire().await.allowed);
    bucket.advance(MICROSECOND);
    for gap in gaps {
        assert_eq!(bucket.peek().await.remaining, 1);
        assert!(bucket.acquire().await.allowed);
        assert!(!bucket.acquire().await.allowed);
        bucket.advance(gap);
    }
}

/// `reset_after` is the moment at which the last admission runs out; then the key is whole.
pub async fn reset_after_is_exact<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 3, MINUTE);
    assert_eq!(reset_after(&bucket.acquire().await), MINUTE);
    bucket.advance(SECOND * 20);
    assert_eq!(reset_after(&bucket.peek().await), SECOND * 40);
    assert_eq!(reset_after(&bucket.acquire().await), MINUTE);
    bucket.advance(MINUTE - MICROSECOND);
    assert_eq!(reset_after(&bucket.peek().await), MICROSECOND);
    assert_eq!(bucket.peek().await.remaining, 2);
    bucket.advance(MICROSECOND);
    let whole = bucket.peek().await;
    assert_eq!((reset_after(&whole), whole.remaining), (Duration::ZERO, 3));
}

/// The shortest window works as the long ones do.
pub async fn a_window_of_a_millisecond<S: Store>(bench: Bench<S>) {
    const WINDOW: Duration = Duration::from_millis(1);
    for attempt in 0..200 {
        let bucket = bench.bucket(&attempt.to_string(), 1, WINDOW);
        let asked = Instant::now();
        let first = bucket.acquire_unwatched().await;
        assert!(first.allowed);
        let second = bucket.acquire_unwatched().await;
        // A store may also forget by a real clock, and real time passes here.
        if asked.elapsed() < WINDOW {
            assert_eq!((second.allowed, second.retry_after()), (false, WINDOW), "attempt {attempt}");
        }
        bucket.advance(WINDOW);
        assert!(bucket.acquire_unwatched().await.allowed);
    }
}

/// The longest window works as the short ones do.
pub async fn a_window_of_366_days<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 2, MAX_WINDOW);
    bucket.admit().await;
    bucket.advance(HOUR);
    bucket.admit().await;
    assert_eq!(bucket.acquire().await.retry_after(), MAX_WINDOW - HOUR);
    bucket.advance(MAX_WINDOW - HOUR - MICROSECOND);
    assert!(!bucket.acquire().await.allowed);
    bucket.advance(MICROSECOND);
    assert!(bucket.acquire().await.allowed);
    assert_eq!(bucket.acquire().await.retry_after(), HOUR);
}

/// A clock that steps back, by however much, frees nothing before its time has really passed.
pub async fn a_clock_that_steps_back_admits_no_more<S: Store>(bench: Bench<S>) {
    for (nth, step) in [MICROSECOND, SECOND * 30, MINUTE, HOUR, HOUR * 24 * 365].into_iter().enumerate() {
        let mut bucket = bench.bucket(&nth.to_string(), 3, MINUTE);
        bucket.admit().await;
        bucket.advance(SECOND);
        bucket.admit().await;
        bucket.advance(SECOND);
        bench.clock.step_back(step);

        // A second of the three is 2 s old, one 1 s old, and one slot is left.
        assert!(bucket.acquire_unwatched().await.allowed, "the free slot, after a step of {step:?}");
        assert_refused(&bucket, step).await;
        bucket.advance(SECOND * 58 - MICROSECOND);
        assert_refused(&bucket, step).await;

        // Once the clock has caught up and a window has passed, nothing of all this is left.
        bucket.advance(step + MINUTE * 2);
        for left in [2, 1, 0] {
            let verdict = bucket.acquire_unwatched().await;
            assert_eq!((verdict.allowed, verdict.remaining), (true, left), "after a step of {step:?}");
            bucket.advance(SECOND);
        }
        assert_refused(&bucket, step).await;
    }
}

async fn assert_refused<S: Store>(bucket: &Bucket<'_, S>, step: Duration) {
    // A store that forgets by whole milliseconds of its own clock rounds up at both ends.
    let longest = bucket.limit.window() + Duration::from_millis(2);
    let verdict = bucket.acquire_unwatched().await;
    assert!(!verdict.allowed, "after a step of {step:?}");
    assert!(verdict.retry_after() <= longest, "{verdict:?} after a step of {step:?}");
    assert!(reset_after(&verdict) <= longest, "{verdict:?} after a step of {step:?}");
}

/// A clock that steps back keeps no key longer than a window from then on.
pub async fn a_clock_that_steps_back_keeps_nothing_longer<S: Store>(bench: Bench<S>) {
    const WINDOW: Duration = Duration::from_millis(40);
    let bucket = bench.bucket("", 1, WINDOW);
    assert!(bucket.acquire_unwatched().await.allowed);
    bench.clock.step_back(HOUR);
    let _ = bucket.acquire_unwatched().await;
    bucket.advance(WINDOW);
    // A store may forget by a real clock, so real time has to pass as well.
    let asked = Instant::now();
    while !bucket.acquire_unwatched().await.allowed {
        assert!(asked.elapsed() < SECOND * 10, "a window of {WINDOW:?} was over long ago");
        tokio::task::yield_now().await;
    }
}

/// A clock that jumps a year ahead finds every key whole.
pub async fn a_clock_that_jumps_ahead_empties<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 3, HOUR);
    for _ in 0..4 {
        for allowed in [true, true, true, false] {
            assert_eq!(bucket.acquire().await.allowed, allowed);
            bucket.advance(SECOND);
        }
        bucket.advance(HOUR * 24 * 365);
        let whole = bucket.peek().await;
        assert_eq!((whole.remaining, whole.reset_after_us), (3, 0));
    }
}

fn reset_after(verdict: &Verdict) -> Duration {
    Duration::from_micros(verdict.reset_after_us)
}

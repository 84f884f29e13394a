//! What the clock may do, under every algorithm.

use std::time::{Duration, Instant};

use super::{Bench, HOUR, MICROSECOND, MINUTE, SECOND};
use crate::store::Store;
use crate::{Algorithm, Limit};

/// A clock that steps back, by however much, frees nothing, and no wait is longer than the horizon.
pub async fn a_clock_that_steps_back_frees_nothing<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    for (nth, step) in [MICROSECOND, SECOND * 30, MINUTE, HOUR, HOUR * 24 * 365].into_iter().enumerate() {
        let subject = bench.subject(&nth.to_string(), algorithm, 3);
        for _ in 0..2 {
            subject.admit(1).await;
        }
        bench.clock.step_back(step);
        // One was left, and one is admitted.
        let mut passed = 0;
        for _ in 0..5 {
            passed += u32::from(subject.acquire(1).await.allowed);
        }
        assert_eq!(passed, 1, "after a step of {step:?}");
        let refused = subject.refused(1).await;
        // A store that forgets by whole milliseconds of its own clock rounds up at both ends.
        let longest = subject.horizon() + Duration::from_millis(2);
        assert!(refused.retry_after() <= longest, "{refused:?} after a step of {step:?}");
        assert!(Duration::from_micros(refused.reset_after_us) <= longest, "{refused:?} after a step of {step:?}");
        // Once the clock has caught up and the horizon has passed, nothing is left of all this.
        bench.clock.advance(step + subject.horizon() * 2);
        subject.assert_whole().await;
    }
}

/// Time that the clock takes back does not count: while it goes to and fro, nothing is admitted that has not been
/// waited for.
pub async fn a_clock_that_goes_to_and_fro_frees_nothing<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 4);
    for _ in 0..4 {
        subject.admit(1).await;
    }
    for _ in 0..50 {
        bench.clock.step_back(SECOND * 5);
        subject.refuse(1).await;
        bench.clock.advance(SECOND * 5);
        subject.refuse(1).await;
    }
}

/// A clock that steps back keeps no key longer than a horizon from then on.
pub async fn a_clock_that_steps_back_keeps_no_key_longer<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject_under("", algorithm, &[Limit::new(1, Duration::from_millis(40))]);
    subject.admit(1).await;
    bench.clock.step_back(HOUR);
    let _ = subject.acquire(1).await;
    subject.advance(subject.horizon());
    // A store may forget by a real clock, so real time has to pass as well.
    let asked = Instant::now();
    while !subject.acquire(1).await.allowed {
        assert!(asked.elapsed() < SECOND * 10, "it was over long ago");
        tokio::task::yield_now().await;
    }
}

/// A clock that jumps ahead finds every key whole.
pub async fn a_clock_that_jumps_ahead_finds_keys_whole<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    for jump in [subject.horizon(), MINUTE * 3, HOUR * 24 * 365] {
        for _ in 0..3 {
            subject.admit(1).await;
        }
        subject.refuse(1).await;
        bench.clock.advance(jump);
        subject.assert_whole().await;
    }
}

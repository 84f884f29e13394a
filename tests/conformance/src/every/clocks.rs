//! Clocks that step back or jump ahead, under every algorithm.

use std::time::Duration;

use crate::bench::{Bench, HOUR, MICROSECOND, MINUTE, SECOND};
use ratelimit_runtime::Algorithm;

const STEPS: [Duration; 5] = [
    MICROSECOND,
    Duration::from_secs(30),
    MINUTE,
    HOUR,
    Duration::from_secs(365 * 86_400),
];

/// A clock that steps back, by however much, frees nothing, and a refusal says how long it is
/// behind: until the clock has caught up, and then as long as ever.
pub(crate) async fn a_clock_that_steps_back_frees_nothing(bench: Bench, algorithm: Algorithm) {
    for (nth, step) in STEPS.into_iter().enumerate() {
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
        let waits = step..=step + bucket.horizon();
        assert!(
            refused
                .retry_after()
                .is_some_and(|wait| waits.contains(&wait)),
            "{refused:?} after {step:?}"
        );
        assert!(
            waits.contains(&Duration::from_micros(refused.reset_after_us)),
            "{refused:?} after {step:?}"
        );
        bucket.wait_out(&refused, 1).await;
        bucket.admit(1).await;
        // Once a horizon has passed, nothing is left of all this.
        bench.clock.advance(bucket.horizon());
        bucket.assert_whole().await;
    }
}

/// Time that the clock takes back does not count: while it goes to and fro, nothing is admitted
/// that has not been waited for.
pub(crate) async fn a_clock_that_goes_to_and_fro_frees_nothing(bench: Bench, algorithm: Algorithm) {
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

/// For a sliding window: what was used at a time by the clock is free a window later by it, however
/// far it has stepped back meanwhile.
pub(crate) async fn what_was_admitted_before_a_step_back_counts_for_its_time(
    bench: Bench,
    algorithm: Algorithm,
) {
    for (nth, step) in STEPS.into_iter().enumerate() {
        let bucket = bench.bucket(&nth.to_string(), algorithm, 3);
        for _ in 0..2 {
            bucket.admit(1).await;
            bucket.advance(SECOND);
        }
        bench.clock.step_back(step);

        // Of three units one was taken 2 s ago, one 1 s ago, and one is left.
        bucket.admit(1).await;
        let refused = bucket.refused(1).await;
        assert_eq!(
            refused.retry_after(),
            Some(SECOND * 58 + step),
            "{refused:?}"
        );
        bucket.wait_out(&refused, 1).await;
        bucket.admit(1).await;
        let refused = bucket.refused(1).await;
        assert_eq!(
            refused.retry_after(),
            Some(SECOND),
            "{refused:?} after a step of {step:?}"
        );
    }
}

//! Several limits on one key.

use std::time::Duration;

use crate::bench::{Bench, HOUR, MINUTE, SECOND};
use ratelimit_runtime::{Algorithm, Limit};

/// What one limit refuses is charged to none.
pub(crate) async fn a_call_is_charged_to_all_limits_or_none(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket_under("", algorithm, &[Limit::per_minute(2), Limit::per_hour(3)]);
    for _ in 0..2 {
        bucket.admit(1).await;
    }
    for _ in 0..50 {
        assert_eq!(bucket.refused(1).await.limit_index, 0);
    }
    bucket.advance(MINUTE * 2);
    // Had the hour been charged for one of the fifty, it would be used up.
    bucket.admit(1).await;
    assert_eq!(bucket.refused(1).await.limit_index, 1);
}

/// An admission is decided by the limit with the least left, a refusal by the one with the longest
/// wait; of equals by the first.
pub(crate) async fn the_limit_that_decides_is_named(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket_under("tie", algorithm, &[Limit::per_minute(5), Limit::per_hour(5)]);
    let verdict = bucket.admitted(1).await;
    assert_eq!((verdict.limit_index, verdict.remaining), (0, 4));

    let bucket = bench.bucket_under("least", algorithm, &[Limit::per_minute(9), Limit::per_hour(4)]);
    let verdict = bucket.admitted(1).await;
    assert_eq!((verdict.limit_index, verdict.remaining), (1, 3));

    let bucket = bench.bucket_under("one", algorithm, &[Limit::per_minute(1), Limit::per_hour(5)]);
    bucket.admit(1).await;
    assert_eq!(bucket.refused(1).await.limit_index, 0);

    let limits = [Limit::per_minute(2), Limit::per_day(2), Limit::per_hour(2)];
    let bucket = bench.bucket_under("longest", algorithm, &limits);
    for _ in 0..2 {
        bucket.admit(1).await;
    }
    assert_eq!(bucket.refused(1).await.limit_index, 1, "all refuse, and the day waits longest");
}

/// The wait that a refusal names satisfies all limits, and is not a microsecond too long.
pub(crate) async fn the_wait_satisfies_all_limits(bench: Bench, algorithm: Algorithm) {
    let limits = [Limit::new(2, SECOND * 10), Limit::per_minute(3), Limit::new(7, HOUR + Duration::from_micros(333))];
    let bucket = bench.bucket_under("", algorithm, &limits);
    let mut seen = [false; 3];
    for _ in 0..40 {
        let verdict = bucket.acquire(1).await;
        if verdict.allowed {
            bucket.advance(Duration::from_micros(1_234_567));
        } else {
            if let Some(seen) = seen.get_mut(verdict.limit_index) {
                *seen = true;
            }
            bucket.wait_out(&verdict, 1).await;
        }
    }
    assert!(seen.iter().filter(|seen| **seen).count() >= 2, "more than one limit refused: {seen:?}");
}

/// As many limits as a rule may have are kept on one key, each with its own window.
pub(crate) async fn eight_limits_are_kept(bench: Bench, algorithm: Algorithm) {
    let limits: Vec<Limit> = (1..=8).map(|nth| Limit::new(20 + u64::from(nth), MINUTE * nth)).collect();
    let bucket = bench.bucket_under("", algorithm, &limits);
    for left in (0..21).rev() {
        let verdict = bucket.admitted(1).await;
        assert_eq!((verdict.limit_index, verdict.remaining), (0, left));
    }
    assert_eq!(bucket.refused(1).await.limit_index, 0);
    bucket.advance(bucket.horizon());
    bucket.assert_whole().await;
}

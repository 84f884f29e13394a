//! Several limits on one key.

use crate::bench::{Bench, MINUTE};
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

/// As many limits as a rule may have are kept on one key, each with its own window.
pub(crate) async fn eight_limits_are_kept(bench: Bench, algorithm: Algorithm) {
    let limits: Vec<Limit> = (1..=8)
        .map(|nth| Limit::new(20 + u64::from(nth), MINUTE * nth))
        .collect();
    let bucket = bench.bucket_under("", algorithm, &limits);
    for left in (0..21).rev() {
        let verdict = bucket.admitted(1).await;
        assert_eq!((verdict.limit_index, verdict.remaining), (0, left));
    }
    assert_eq!(bucket.refused(1).await.limit_index, 0);
    bucket.advance(bucket.horizon());
    bucket.assert_whole().await;
}

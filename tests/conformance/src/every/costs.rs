//! Costs: what calls of cost 0, of large and of different costs use.

use crate::bench::Bench;
use ratelimit_runtime::{Algorithm, Limit};

/// A call of cost 0 is admitted as long as the limit is not exceeded, charges nothing and makes no
/// key.
pub(crate) async fn a_cost_of_0_charges_nothing(bench: Bench, algorithm: Algorithm) {
    let mut bucket = bench.bucket("", algorithm, 4);
    let free = bucket.admitted(0).await;
    assert_eq!((free.remaining, free.ticket), (4, 0));
    assert!(!bucket.reset().await, "a call of cost 0 makes no key");
    bucket.admit(4).await;
    assert_eq!(
        bucket.admitted(0).await.remaining,
        0,
        "the limit is used up, and not exceeded"
    );
    bucket.limits = vec![Limit::per_minute(2).with_burst(1)];
    let exceeded = bucket.acquire(0).await;
    assert_eq!(exceeded.remaining, 0);
    assert!(
        !exceeded.allowed && exceeded.retry_after_us > 0,
        "{exceeded:?}"
    );
    bucket.wait_out(&exceeded, 0).await;
}

/// The largest counts are counted as exactly as small ones.
pub(crate) async fn the_largest_counts_are_exact(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, Limit::MAX_COUNT);
    let half = Limit::MAX_COUNT / 2;
    assert_eq!(
        bucket.admitted(half).await.remaining,
        Limit::MAX_COUNT - half
    );
    assert_eq!(
        bucket.admitted(half).await.remaining,
        Limit::MAX_COUNT - 2 * half
    );
    let refused = bucket.refused(2).await;
    assert_eq!(refused.remaining, 1);
    assert_eq!(bucket.admitted(1).await.remaining, 0);
    let refused = bucket.refused(Limit::MAX_COUNT).await;
    bucket.wait_out(&refused, Limit::MAX_COUNT).await;
    assert_eq!(bucket.admitted(Limit::MAX_COUNT).await.remaining, 0);
}

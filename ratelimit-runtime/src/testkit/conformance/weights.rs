//! Calls that weigh more than one.

use super::{Bench, MICROSECOND, MINUTE, SECOND};
use crate::store::Store;

/// What is admitted in a window weighs `max` at most together, and a light call may pass where a heavy one may not.
pub async fn weights_add_up<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 10, MINUTE);
    bucket.spread = 9;
    for (cost, allowed, left) in [(4, true, 6), (7, false, 6), (5, true, 1), (2, false, 1), (1, true, 0), (1, false, 0)]
    {
        let seen = bucket.peek_cost(cost).await;
        let verdict = bucket.acquire_cost(cost).await;
        assert_eq!((verdict.allowed, verdict.remaining), (allowed, left), "cost {cost}");
        assert_eq!((seen.allowed, seen.retry_after_us), (verdict.allowed, verdict.retry_after_us), "cost {cost}");
        bucket.advance(SECOND);
    }
    // The 4 of 0 s run out at 60 s.
    bucket.advance(SECOND * 54 + MICROSECOND * 9);
    assert_eq!(bucket.acquire_cost(4).await.remaining, 0);
}

/// `retry_after` of a heavy call is the moment at which enough has run out for it, not the moment of the next slot.
pub async fn a_heavy_call_waits_for_enough<S: Store>(bench: Bench<S>) {
    let mut bucket = bench.bucket("", 10, MINUTE);
    for _ in 0..10 {
        bucket.admit().await;
        bucket.advance(SECOND);
    }
    // Logged at 0 s … 9 s; it is 10 s now.
    for (cost, wait) in [(1, 50), (2, 51), (5, 54), (10, 59)] {
        assert_eq!(bucket.acquire_cost(cost).await.retry_after(), SECOND * wait, "cost {cost}");
    }
    bucket.advance(SECOND * 54 - MICROSECOND);
    assert!(!bucket.acquire_cost(5).await.allowed);
    bucket.advance(MICROSECOND);
    bucket.spread = 4;
    assert_eq!(bucket.acquire_cost(5).await.remaining, 0);
    bucket.advance(SECOND);
    assert!(!bucket.acquire_cost(10).await.allowed);
}

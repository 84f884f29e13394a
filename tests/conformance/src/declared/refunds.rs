//! Refunds: what can be given back, how often, and for how long.

use crate::bench::{Bench, MICROSECOND, SECOND, is_log};
use ratelimit_runtime::{Algorithm, Limit};

/// A refund frees what its call was charged: of a log once, since it knows its entries; the other
/// algorithms keep sums, and give back at most what is in them.
pub(crate) async fn a_refund_gives_back_what_was_charged(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    let first = bucket.admitted(1).await;
    let second = bucket.admitted(1).await;
    assert!(
        first.ticket > 0 && second.ticket > 0,
        "an admission that was charged has a ticket"
    );
    bucket.admit(1).await;
    bucket.refuse(1).await;
    assert!(bucket.refund(1, first.ticket).await);
    assert_eq!(bucket.remaining().await, 1);
    if is_log(algorithm) {
        assert!(
            !bucket.refund(1, first.ticket).await,
            "a charge is given back once"
        );
        assert_eq!(bucket.remaining().await, 1);
    }
    bucket.admit(1).await;
    bucket.refuse(1).await;
}

/// A heavy call gets back all it cost, also while a `max` of 0 suspends its key.
pub(crate) async fn a_refund_of_a_heavy_call_gives_back_its_cost(
    bench: Bench,
    algorithm: Algorithm,
) {
    let mut bucket = bench.bucket("", algorithm, 10);
    let heavy = bucket.admitted(6).await;
    bucket.advance(MICROSECOND);
    bucket.admit(3).await;
    let limits = std::mem::replace(&mut bucket.limits, vec![Limit::per_minute(0)]);
    assert!(bucket.refund(6, heavy.ticket).await);
    bucket.limits = limits;
    assert_eq!(bucket.remaining().await, 7);
    bucket.admit(7).await;
    bucket.refuse(1).await;
}

/// What does not exist cannot be given back, and trying makes no key.
pub(crate) async fn a_refund_of_nothing_makes_no_key(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    let now = bench.now();
    for ticket in [1, now - 1, now, now + 1] {
        assert!(!bucket.refund(1, ticket).await);
    }
    assert!(!bucket.reset().await, "a refund makes no key");
    bucket.assert_whole().await;
}

/// What has expired is not given back, and leaves no room for more than `max` later.
pub(crate) async fn what_has_expired_is_not_given_back(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    let old = bucket.admitted(1).await;
    bucket.advance(bucket.horizon());
    assert!(!bucket.refund(1, old.ticket).await);
    for _ in 0..3 {
        bucket.admit(1).await;
    }
    if !algorithm.has_burst() {
        // These know which window a charge belonged to.
        assert!(!bucket.refund(1, old.ticket).await);
        bucket.refuse(1).await;
    }
}

/// After a reset, earlier tickets are void.
pub(crate) async fn what_was_reset_is_not_given_back(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    let old = bucket.admitted(1).await;
    assert!(bucket.reset().await);
    assert!(!bucket.refund(1, old.ticket).await);
    assert!(!bucket.reset().await, "a refund makes no key");
    bucket.advance(SECOND);
    for _ in 0..3 {
        bucket.admit(1).await;
    }
    if !algorithm.has_burst() {
        let given_back = bucket.refund(1, old.ticket).await;
        assert!(
            !given_back,
            "a ticket from before the first charge that the state knows of"
        );
        bucket.refuse(1).await;
    }
}

/// However often it is given back, a key never has more left than its limit.
pub(crate) async fn refunds_never_free_more_than_was_taken(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 4);
    let mut tickets = Vec::new();
    for _ in 0..4 {
        tickets.push(bucket.admitted(1).await.ticket);
        bucket.advance(MICROSECOND);
    }
    for _ in 0..3 {
        for &ticket in &tickets {
            bucket.refund(1, ticket).await;
        }
    }
    assert_eq!(bucket.remaining().await, 4);
    for _ in 0..4 {
        bucket.admit(1).await;
    }
    bucket.refuse(1).await;
}

/// Of a sliding window: a refund takes out the units of its own call, and a ticket is not given
/// again while it may be named.
pub(crate) async fn a_refund_is_of_the_units_of_its_call(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 4);
    let (first, second) = (
        bucket.admitted(2).await.ticket,
        bucket.admitted(2).await.ticket,
    );
    assert!(bucket.refund(2, second).await);
    assert!(!bucket.refund(2, second).await, "it was given back");
    assert_eq!(bucket.remaining().await, 2);
    let third = bucket.admitted(2).await.ticket;
    assert_eq!(
        third,
        second + 2,
        "a ticket that was given back is not given again"
    );
    assert!(!bucket.refund(2, second).await);
    assert!(bucket.refund(2, first).await);
    // What is left was admitted third, and frees then.
    let wait = bucket.refused(3).await.retry_after_us;
    assert_eq!(wait, third + 60_000_000 - bench.now());
}

/// Of a sliding window: a refund never takes out units of an estimate that is open.
pub(crate) async fn a_refund_leaves_open_estimates_alone(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 10);
    let estimate = bucket.reserve_estimate(3).await.ticket;
    assert!(!bucket.refund(3, estimate).await);
    assert_eq!(bucket.remaining().await, 7);
    assert!(bucket.settle_estimate(3, estimate, 1).await.was_open);
    assert_eq!(bucket.remaining().await, 9);
}

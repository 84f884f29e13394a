//! What is given back.

use super::{Bench, MICROSECOND, SECOND};
use crate::Algorithm;
use crate::store::Store;

/// A refund frees what its call was charged: of a log once, since it knows its entries; the other algorithms keep
/// sums, and give back at most what they hold.
pub async fn a_refund_gives_back_what_was_charged<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    let first = subject.admitted(1).await;
    let second = subject.admitted(1).await;
    assert!(first.ticket > 0 && second.ticket > 0, "an admission that was charged has a ticket");
    subject.admit(1).await;
    subject.refuse(1).await;
    assert!(subject.refund(1, first.ticket).await);
    assert_eq!(subject.remaining().await, 1);
    if algorithm == Algorithm::SlidingWindow {
        assert!(!subject.refund(1, first.ticket).await, "a charge is given back once");
        assert_eq!(subject.remaining().await, 1);
    }
    subject.admit(1).await;
    subject.refuse(1).await;
}

/// A heavy call gets back all it cost.
pub async fn a_refund_of_a_heavy_call_gives_back_its_cost<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 10);
    let heavy = subject.admitted(6).await;
    subject.advance(MICROSECOND);
    subject.admit(3).await;
    assert!(subject.refund(6, heavy.ticket).await);
    assert_eq!(subject.remaining().await, 7);
    subject.admit(7).await;
    subject.refuse(1).await;
}

/// What does not exist cannot be given back, and trying makes no key.
pub async fn a_refund_of_nothing_makes_no_key<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    let now = bench.now();
    for ticket in [1, now - 1, now, now + 1] {
        assert!(!subject.refund(1, ticket).await);
    }
    assert!(!subject.reset().await, "a refund makes no key");
    subject.assert_whole().await;
}

/// What has expired is not given back, and leaves no room for more than `max` later.
pub async fn what_has_expired_is_not_given_back<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    let old = subject.admitted(1).await;
    subject.advance(subject.horizon());
    assert!(!subject.refund(1, old.ticket).await);
    for _ in 0..3 {
        subject.admit(1).await;
    }
    if matches!(algorithm, Algorithm::SlidingWindow | Algorithm::FixedWindow | Algorithm::SlidingCounter) {
        // These know which window a charge belonged to.
        assert!(!subject.refund(1, old.ticket).await);
        subject.refuse(1).await;
    }
}

/// A reset takes the tickets along.
pub async fn what_was_reset_is_not_given_back<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    let old = subject.admitted(1).await;
    assert!(subject.reset().await);
    assert!(!subject.refund(1, old.ticket).await);
    assert!(!subject.reset().await, "a refund makes no key");
    subject.advance(SECOND);
    for _ in 0..3 {
        subject.admit(1).await;
    }
    if matches!(algorithm, Algorithm::SlidingWindow | Algorithm::FixedWindow | Algorithm::SlidingCounter) {
        assert!(!subject.refund(1, old.ticket).await);
        subject.refuse(1).await;
    }
}

/// However often it is given back, a key never holds more than its limit.
pub async fn refunds_never_free_more_than_was_taken<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 4);
    let mut tickets = Vec::new();
    for _ in 0..4 {
        tickets.push(subject.admitted(1).await.ticket);
        subject.advance(MICROSECOND);
    }
    for _ in 0..3 {
        for &ticket in &tickets {
            subject.refund(1, ticket).await;
        }
    }
    assert_eq!(subject.remaining().await, 4);
    for _ in 0..4 {
        subject.admit(1).await;
    }
    subject.refuse(1).await;
}

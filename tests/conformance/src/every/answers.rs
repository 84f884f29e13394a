//! Answers: a store has done its work if it answers at once, and nothing yet if the answer is for
//! later.

use crate::bench::{Bench, HOUR};
use ratelimit_runtime::Algorithm;
use ratelimit_runtime::store::Answer;

/// Whether the answer was there at once: then the store has done what it was asked. One for later
/// is dropped here before any task has polled it: then the store must have done nothing.
fn done_at_once<T>(answer: Answer<'_, T>) -> bool {
    answer.known().is_ok()
}

/// An answer for later that is dropped unpolled has charged nothing, and forgotten nothing.
pub(crate) async fn an_answer_that_is_not_polled_has_done_nothing(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 5);
    let mut left = 5;
    for _ in 0..3 {
        left -= u64::from(done_at_once(bench.store.acquire(bucket.request(1))));
        assert_eq!(bucket.remaining().await, left);
    }
    bucket.admit(1).await;
    let reset = done_at_once(bench.store.reset(bucket.request(1)));
    assert_eq!(bucket.remaining().await, if reset { 5 } else { left - 1 });
}

/// A refund that is asked for, dropped before it is under way, and asked for again is given once.
pub(crate) async fn a_refund_that_is_not_polled_can_still_be_had(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 3);
    let first = bucket.admitted(1).await;
    bucket.admit(1).await;
    if !done_at_once(bench.store.refund(bucket.request(1), first.ticket)) {
        assert_eq!(
            bucket.remaining().await,
            1,
            "nothing has been given back yet"
        );
        assert!(
            bucket.refund(1, first.ticket).await,
            "it is there to be given back"
        );
    }
    assert_eq!(bucket.remaining().await, 2, "it was given back once");
}

/// A reservation stays open until an answer on it is polled.
pub(crate) async fn a_commit_that_is_not_polled_leaves_the_reservation_open(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 3);
    let committed = bucket.reserve(1).await.ticket;
    if !done_at_once(
        bench
            .store
            .settle(bucket.request(1).reserving(), committed, 1),
    ) {
        assert!(bucket.commit(1, committed).await, "it was open");
    }
    assert!(!bucket.commit(1, committed).await);
    let released = bucket.reserve(1).await.ticket;
    if !done_at_once(
        bench
            .store
            .settle(bucket.request(1).reserving(), released, 0),
    ) {
        assert_eq!(bucket.remaining().await, 1);
        assert!(bucket.release(1, released).await, "it was open");
    }
    assert_eq!(bucket.remaining().await, 2, "it was given back once");
}

/// Nobody is blocked, or freed, by an answer that is not polled.
pub(crate) async fn a_block_that_is_not_polled_blocks_no_key(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 3);
    let blocked = done_at_once(bench.store.block(bucket.request(1), HOUR));
    assert_eq!(bucket.peek(1).await.blocked, blocked);
    bucket.block(HOUR).await;
    let free = done_at_once(bench.store.unblock(bucket.request(1)));
    assert_eq!(bucket.peek(1).await.blocked, !free);
}

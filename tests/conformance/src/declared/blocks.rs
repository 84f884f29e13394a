//! Blocks: what sets them, how long they last, what they leave behind.

use crate::bench::{Bench, HOUR, MICROSECOND, MINUTE, SECOND, answered};
use ratelimit_runtime::Algorithm;

/// A blocked key is refused until the block is over, to the microsecond.
pub(crate) async fn a_blocked_key_is_refused_until_the_block_is_over(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 3);
    bucket.block(MINUTE * 10).await;
    for kind in [bucket.peek(1).await, bucket.acquire(1).await] {
        assert!(!kind.allowed && kind.blocked, "{kind:?}");
        assert_eq!(kind.retry_after(), Some(MINUTE * 10));
    }
    bucket.advance(MINUTE * 10 - MICROSECOND);
    assert_eq!(bucket.refused(1).await.retry_after(), Some(MICROSECOND));
    bucket.advance(MICROSECOND);
    let free = bucket.admitted(1).await;
    assert!(!free.blocked && free.remaining == 2, "{free:?}");
}

/// A key that the limits refuse is blocked for longer than their window; trying again meanwhile
/// does not extend it.
pub(crate) async fn a_block_outlives_the_window_and_is_not_extended(
    bench: Bench,
    algorithm: Algorithm,
) {
    let block = MINUTE * 10;
    let bucket = bench.bucket("", algorithm, 2);
    for _ in 0..2 {
        let admitted = bucket.acquire_or_block(block).await;
        assert!(
            admitted.allowed && !admitted.blocked,
            "an admission blocks no key: {admitted:?}"
        );
    }
    let refused = bucket.acquire_or_block(block).await;
    assert!(
        refused.blocked && refused.retry_after() == Some(block),
        "{refused:?}"
    );
    for elapsed in 1..20 {
        bucket.advance(SECOND * 30);
        let refused = bucket.acquire_or_block(block).await;
        assert!(refused.blocked && !refused.allowed, "{refused:?}");
        assert_eq!(refused.retry_after(), Some(block - SECOND * 30 * elapsed));
    }
    bucket.advance(SECOND * 30 - MICROSECOND);
    bucket.refuse(1).await;
    bucket.advance(MICROSECOND);
    assert_eq!(
        bucket.admitted(1).await.remaining,
        1,
        "the window was over long ago"
    );
}

/// Looking blocks no key.
pub(crate) async fn peek_blocks_no_key(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("", algorithm, 2);
    for _ in 0..2 {
        bucket.admit(1).await;
    }
    let refused = bucket.refused(1).await;
    let look = || async {
        let request = bucket.request(1).with_block(HOUR);
        answered(bench.store.peek(request).await)
    };
    for _ in 0..3 {
        let seen = look().await;
        assert!(!seen.allowed && !seen.blocked, "{seen:?}");
        assert_eq!(seen.retry_after_us, refused.retry_after_us);
    }
    bucket.wait_out(&refused, 1).await;
}

/// A block leaves the charges as they are: once it is over, or ended, the limits decide again.
pub(crate) async fn a_block_leaves_the_charges(bench: Bench, algorithm: Algorithm) {
    let bucket = bench.bucket("over", algorithm, 2);
    for _ in 0..2 {
        bucket.admit(1).await;
    }
    let by_the_limit = bucket.refused(1).await.retry_after();
    bucket.block(SECOND * 10).await;
    let both = bucket.refused(1).await;
    assert!(both.blocked, "{both:?}");
    assert_eq!(
        both.retry_after(),
        by_the_limit,
        "the limit refuses for longer than the block"
    );
    bucket.advance(SECOND * 10);
    let refused = bucket.refused(1).await;
    assert!(!refused.blocked, "{refused:?}");
    bucket.wait_out(&refused, 1).await;

    // Also where another `max` sets and ends it.
    let (bucket, of_more) = (
        bench.bucket("ended", algorithm, 3),
        bench.bucket("ended", algorithm, 1_000),
    );
    for _ in 0..3 {
        bucket.admit(1).await;
    }
    bucket.advance(SECOND);
    of_more.block(HOUR).await;
    bucket.refuse(1).await;
    assert!(of_more.unblock().await);
    assert!(!bucket.unblock().await, "there is no block any more");
    bucket.wait_out(&bucket.refused(1).await, 1).await;
}

/// Ending a block that is not there makes no key; a reset ends one, too.
pub(crate) async fn unblock_makes_no_key_and_reset_ends_a_block(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 2);
    assert!(!bucket.unblock().await);
    assert!(!bucket.reset().await, "unblock makes no key");
    bucket.block(HOUR).await;
    assert!(bucket.reset().await, "a block is something");
    bucket.assert_whole().await;
}

/// A block by hand ends at the moment that was told by the clock, also when the clock has stepped
/// back.
pub(crate) async fn a_clock_that_steps_back_leaves_a_block_until_its_moment(
    bench: Bench,
    algorithm: Algorithm,
) {
    for used in [false, true] {
        let bucket = bench.bucket(&used.to_string(), algorithm, 5);
        if used {
            bucket.admit(1).await;
        }
        bucket.block(HOUR * 720).await;
        bucket.advance(SECOND);
        bench.clock.step_back(HOUR);
        let refused = bucket.refused(1).await;
        assert!(refused.blocked && refused.remaining == 0, "{refused:?}");
        assert_eq!(refused.retry_after(), Some(HOUR * 721 - SECOND));
        bucket.wait_out(&refused, 1).await;
    }
}

/// Also one that a refusal sets while the clock is behind by more than the block lasts.
pub(crate) async fn a_block_that_is_set_while_the_clock_is_behind_is_kept(
    bench: Bench,
    algorithm: Algorithm,
) {
    let bucket = bench.bucket("", algorithm, 1);
    bucket.admit(1).await;
    bench.clock.step_back(HOUR * 24);
    assert!(bucket.acquire_or_block(MINUTE * 2).await.blocked);
    bucket.advance(SECOND);
    let refused = bucket.acquire_or_block(MINUTE * 2).await;
    // What was admitted counts until the clock has caught up, and then for its time.
    let waits = HOUR * 24 + MINUTE - SECOND..=HOUR * 24 + MINUTE * 2;
    assert!(
        refused.blocked
            && refused
                .retry_after()
                .is_some_and(|wait| waits.contains(&wait)),
        "{refused:?}"
    );
    assert!(bucket.unblock().await);
    assert!(!bucket.peek(1).await.blocked);
}

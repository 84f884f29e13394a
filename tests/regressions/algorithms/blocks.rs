//! A block lasts as long as it was given: no call and no clock shortens or extends it.

use ratelimit_runtime::store::Feature;

use super::*;

#[tokio::test]
async fn a_clock_that_steps_back_leaves_a_block_by_hand_as_long_as_it_was() {
    for &algorithm in ALGORITHMS {
        for subject in Subject::everywhere(algorithm, per(5, MINUTE)) {
            let what = subject.what();
            assert!(subject.store.acquire(subject.request()).await.unwrap().allowed);
            subject.store.block(subject.request(), micros(30 * DAY)).await.unwrap();
            subject.pass(SECOND);
            subject.step_back(3_600 * SECOND);
            let refused = subject.store.acquire(subject.request()).await.unwrap();
            assert!(refused.blocked, "{what}");
            assert!(refused.retry_after_us <= 30 * DAY, "{what}: longer than it was given: {refused:?}");
            assert!(refused.retry_after_us >= 30 * DAY - SECOND, "{what}: cut short: {refused:?}");
            subject.pass(refused.retry_after_us - 1);
            assert!(subject.store.peek(subject.request()).await.unwrap().blocked, "{what}");
            subject.pass(1);
            assert!(!subject.store.peek(subject.request()).await.unwrap().blocked, "{what}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_never_lengthens_a_block_of_an_unused_key() {
    for &algorithm in ALGORITHMS {
        for subject in Subject::everywhere(algorithm, per(5, MINUTE)) {
            subject.store.block(subject.request(), micros(2 * MINUTE)).await.unwrap();
            subject.step_back(DAY);
            for _ in 0..3 {
                let refused = subject.store.acquire(subject.request()).await.unwrap();
                assert!(refused.blocked && refused.retry_after_us <= 2 * MINUTE, "{}: {refused:?}", subject.what());
                subject.pass(40 * SECOND);
            }
            assert!(subject.store.acquire(subject.request()).await.unwrap().allowed, "{}", subject.what());
        }
    }
}

/// Steps by more than the block lasts: in a sorted set it once was no longer found among the
/// entries.
#[tokio::test]
async fn a_block_that_is_set_while_the_clock_is_behind_is_kept() {
    for &algorithm in ALGORITHMS {
        for subject in Subject::everywhere(algorithm, per(1, MINUTE)) {
            assert!(subject.store.acquire(subject.request()).await.unwrap().allowed);
            subject.step_back(DAY);
            let blocking = subject.request().with_block(micros(2 * MINUTE));
            assert!(subject.store.acquire(blocking).await.unwrap().blocked, "{}", subject.what());
            subject.pass(SECOND);
            let refused = subject.store.acquire(blocking).await.unwrap();
            // What was admitted counts until the key ends, which on Redis is by another clock: to
            // the end of the last millisecond, and not sooner because this clock has moved.
            let (left, longest) = (2 * MINUTE - SECOND, 2 * MINUTE + 2_000);
            assert!(refused.blocked && (left..longest).contains(&refused.retry_after_us), "{}", subject.what());
            assert!(subject.store.unblock(subject.request()).await.unwrap(), "{}", subject.what());
            assert!(!subject.store.peek(subject.request()).await.unwrap().blocked, "{}", subject.what());
        }
    }
}

/// The block outlives what was admitted; when it is lifted, the clock may still step back to before
/// that was over.
#[tokio::test]
async fn what_a_block_has_outlived_counts_again_when_the_clock_steps_back() {
    for &algorithm in ALGORITHMS {
        for subject in Subject::everywhere(algorithm, per(1, 1_000)) {
            assert!(subject.store.acquire(subject.request()).await.unwrap().allowed);
            subject.store.block(subject.request(), micros(2 * SECOND)).await.unwrap();
            let over = if algorithm == Algorithm::SlidingCounter { 2_000 } else { 1_000 };
            subject.pass(over);
            assert!(subject.store.unblock(subject.request()).await.unwrap(), "{}", subject.what());
            subject.step_back(1);
            assert!(!subject.store.acquire(subject.request()).await.unwrap().allowed, "{}", subject.what());
            subject.pass(1);
            assert!(subject.store.acquire(subject.request()).await.unwrap().allowed, "{}", subject.what());
        }
    }
}

/// The first block, and the longest.
const GROWS: (u64, u64) = (MINUTE, 10 * MINUTE);

fn growing(subject: &Subject) -> Request<'_> {
    subject.request().with_growing_block(micros(GROWS.0), micros(GROWS.1))
}

/// The block that the next offence gives; what comes before it is admitted.
async fn offends(subject: &Subject) -> u64 {
    for _ in 0..2 {
        let verdict = subject.store.acquire(growing(subject)).await.unwrap();
        if !verdict.allowed {
            assert!(verdict.blocked, "{}: {verdict:?}", subject.what());
            return verdict.retry_after_us;
        }
    }
    panic!("{}: two calls of one a second", subject.what())
}

fn that_grow(algorithm: Algorithm) -> Vec<Subject> {
    let mut all = Subject::everywhere(algorithm, per(1, SECOND));
    all.retain(|subject| subject.store.capabilities().supports_feature(algorithm, Feature::GrowingBlock));
    assert!(all.len() >= 2, "{algorithm}: in memory and on Redis");
    all
}

/// Who has the server's clock set back gets no shorter block, and none that is longer than any.
#[tokio::test]
async fn a_clock_that_steps_back_neither_forgets_offences_nor_makes_blocks_longer_than_the_longest() {
    for &algorithm in ALGORITHMS {
        for subject in that_grow(algorithm) {
            let what = subject.what();
            assert!(subject.store.acquire(growing(&subject)).await.unwrap().allowed, "{what}");
            assert_eq!(offends(&subject).await, GROWS.0, "{what}");
            subject.pass(GROWS.0);
            assert_eq!(offends(&subject).await, 2 * GROWS.0, "{what}");
            subject.step_back(DAY);
            let left = offends(&subject).await;
            // A log stands still until it ends, and strikes keep it.
            let is_kept = algorithm == Algorithm::SlidingWindow && !what.contains("memory");
            let most = 2 * GROWS.0 + if is_kept { GROWS.1 + SECOND } else { 0 };
            assert!(left <= most, "{what}: longer than it was given: {left}");
            subject.pass(left);
            for _ in 0..if is_kept { 0 } else { 5 } {
                let block = offends(&subject).await;
                assert!((2 * GROWS.0..=GROWS.1).contains(&block), "{what}: {block}");
                subject.pass(block);
            }
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_set_forward_forgets_offences_an_upper_bound_after_the_block_and_not_before() {
    for &algorithm in ALGORITHMS {
        for subject in that_grow(algorithm) {
            let what = subject.what();
            assert!(subject.store.acquire(growing(&subject)).await.unwrap().allowed, "{what}");
            assert_eq!(offends(&subject).await, GROWS.0, "{what}");
            subject.pass(GROWS.0 + GROWS.1 - 1);
            assert_eq!(offends(&subject).await, 2 * GROWS.0, "{what}");
            subject.pass(2 * GROWS.0 + GROWS.1);
            assert_eq!(offends(&subject).await, GROWS.0, "{what}");
        }
    }
}

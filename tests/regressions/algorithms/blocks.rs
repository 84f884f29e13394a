//! A block ends at the moment that was told by the clock: no call and no step of it changes that.

use ratelimit_runtime::store::Feature;

use super::*;

#[tokio::test]
async fn a_clock_that_steps_back_leaves_a_block_by_hand_until_the_moment_that_was_told() {
    const BACK: u64 = 3_600 * SECOND;
    for &algorithm in ALGORITHMS {
        for subject in Subject::everywhere(algorithm, per(5, MINUTE)) {
            let what = subject.what();
            assert!(subject.store.acquire(subject.request()).await.unwrap().allowed);
            subject.store.block(subject.request(), micros(30 * DAY)).await.unwrap();
            subject.pass(SECOND);
            subject.step_back(BACK);
            let refused = subject.store.acquire(subject.request()).await.unwrap();
            assert!(refused.blocked, "{what}");
            assert_eq!(refused.remaining, 0, "{what}");
            assert_eq!(refused.retry_after_us, 30 * DAY - SECOND + BACK, "{what}: {refused:?}");
            subject.pass(refused.retry_after_us - 1);
            assert!(subject.store.peek(subject.request()).await.unwrap().blocked, "{what}");
            subject.pass(1);
            assert!(!subject.store.peek(subject.request()).await.unwrap().blocked, "{what}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_leaves_a_block_of_an_unused_key_until_its_moment() {
    for &algorithm in ALGORITHMS {
        for subject in Subject::everywhere(algorithm, per(5, MINUTE)) {
            subject.store.block(subject.request(), micros(2 * MINUTE)).await.unwrap();
            subject.step_back(DAY);
            for passed in 0..3 {
                let refused = subject.store.acquire(subject.request()).await.unwrap();
                let told = (refused.blocked, refused.retry_after_us);
                assert_eq!(told, (true, DAY + 2 * MINUTE - 40 * SECOND * passed), "{}", subject.what());
                subject.pass(40 * SECOND);
            }
            subject.pass(DAY);
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
            // What was admitted counts until the clock has caught up, and then for its time.
            let (least, most) = (DAY + MINUTE - SECOND, DAY + 2 * MINUTE);
            let is_told = (least..=most).contains(&refused.retry_after_us);
            assert!(refused.blocked && is_told, "{}: {refused:?}", subject.what());
            assert!(subject.store.unblock(subject.request()).await.unwrap(), "{}", subject.what());
            assert!(!subject.store.peek(subject.request()).await.unwrap().blocked, "{}", subject.what());
        }
    }
}

/// The block outlives what was admitted. Lifting it is a write at a time when nothing else counts:
/// time stands still there when the clock steps back, unless the log still has the unit.
#[tokio::test]
async fn what_a_block_has_outlived_is_over_also_when_the_clock_steps_back() {
    for &algorithm in ALGORITHMS {
        for subject in Subject::everywhere(algorithm, per(1, 1_000)) {
            assert!(subject.store.acquire(subject.request()).await.unwrap().allowed);
            subject.store.block(subject.request(), micros(2 * SECOND)).await.unwrap();
            let over = if algorithm == Algorithm::SlidingCounter { 2_000 } else { 1_000 };
            subject.pass(over);
            assert!(subject.store.unblock(subject.request()).await.unwrap(), "{}", subject.what());
            subject.step_back(1);
            let verdict = subject.store.acquire(subject.request()).await.unwrap();
            if !verdict.allowed {
                let has_units = algorithm == Algorithm::SlidingWindow;
                assert!(has_units && verdict.retry_after_us == 1, "{}: {verdict:?}", subject.what());
                subject.pass(1);
                assert!(subject.store.acquire(subject.request()).await.unwrap().allowed, "{}", subject.what());
            }
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

/// Who has the server's clock set back gets no shorter block, and is told how far it is behind.
#[tokio::test]
async fn a_clock_that_steps_back_forgets_no_offences() {
    for &algorithm in ALGORITHMS {
        for subject in that_grow(algorithm) {
            let what = subject.what();
            assert!(subject.store.acquire(growing(&subject)).await.unwrap().allowed, "{what}");
            assert_eq!(offends(&subject).await, GROWS.0, "{what}");
            subject.pass(GROWS.0);
            assert_eq!(offends(&subject).await, 2 * GROWS.0, "{what}");
            subject.step_back(DAY);
            let left = offends(&subject).await;
            assert_eq!(left, DAY + 2 * GROWS.0, "{what}");
            subject.pass(left);
            for minutes in [4, 8, 10, 10] {
                assert_eq!(offends(&subject).await, minutes * MINUTE, "{what}");
                subject.pass(minutes * MINUTE);
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

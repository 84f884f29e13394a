//! Bans: what sets them, how long they last, what they leave behind.

use super::{Bench, HOUR, MICROSECOND, MINUTE, SECOND};
use crate::Algorithm;
use crate::store::Store;

/// A blocked key is refused until the ban is over, to the microsecond.
pub async fn a_blocked_key_is_refused_until_the_ban_is_over<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 3);
    subject.block(MINUTE * 10).await;
    for kind in [subject.peek(1).await, subject.acquire(1).await] {
        assert!(!kind.allowed && kind.blocked, "{kind:?}");
        assert_eq!(kind.retry_after(), MINUTE * 10);
    }
    subject.advance(MINUTE * 10 - MICROSECOND);
    assert_eq!(subject.refused(1).await.retry_after(), MICROSECOND);
    subject.advance(MICROSECOND);
    let free = subject.admitted(1).await;
    assert!(!free.blocked && free.remaining == 2, "{free:?}");
}

/// Whom the limits refuse is banned for longer than their window; trying again meanwhile does not extend it.
pub async fn a_ban_outlives_the_window_and_is_not_extended<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let ban = MINUTE * 10;
    let subject = bench.subject("", algorithm, 2);
    for _ in 0..2 {
        let admitted = subject.acquire_or_ban(ban).await;
        assert!(admitted.allowed && !admitted.blocked, "an admission bans nobody: {admitted:?}");
    }
    let refused = subject.acquire_or_ban(ban).await;
    assert!(refused.blocked && refused.retry_after() == ban, "{refused:?}");
    for elapsed in 1..20 {
        subject.advance(SECOND * 30);
        let refused = subject.acquire_or_ban(ban).await;
        assert!(refused.blocked && !refused.allowed, "{refused:?}");
        assert_eq!(refused.retry_after(), ban - SECOND * 30 * elapsed);
    }
    subject.advance(SECOND * 30 - MICROSECOND);
    subject.refuse(1).await;
    subject.advance(MICROSECOND);
    assert_eq!(subject.admitted(1).await.remaining, 1, "the window was over long ago");
}

/// Looking bans nobody.
pub async fn peek_bans_nobody<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 2);
    for _ in 0..2 {
        subject.admit(1).await;
    }
    let refused = subject.refused(1).await;
    let look = || async {
        let request = subject.request(1).with_block(HOUR);
        super::answered(bench.store.peek(request).await)
    };
    for _ in 0..3 {
        let seen = look().await;
        assert!(!seen.allowed && !seen.blocked, "{seen:?}");
        assert_eq!(seen.retry_after_us, refused.retry_after_us);
    }
    subject.wait_out(&refused, 1).await;
}

/// A ban leaves the charges as they are: once it is over, or lifted, the limits decide again.
pub async fn a_ban_leaves_the_charges<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("over", algorithm, 2);
    for _ in 0..2 {
        subject.admit(1).await;
    }
    let by_the_limit = subject.refused(1).await.retry_after();
    subject.block(SECOND * 10).await;
    let both = subject.refused(1).await;
    assert!(both.blocked, "{both:?}");
    assert_eq!(both.retry_after(), by_the_limit, "the limit refuses for longer than the ban");
    subject.advance(SECOND * 10);
    let refused = subject.refused(1).await;
    assert!(!refused.blocked, "{refused:?}");
    subject.wait_out(&refused, 1).await;

    let subject = bench.subject("lifted", algorithm, 3);
    subject.admit(1).await;
    subject.block(HOUR).await;
    subject.refuse(1).await;
    assert!(subject.unblock().await);
    assert!(!subject.unblock().await, "there is no ban any more");
    assert_eq!(subject.remaining().await, 2);
    subject.admit(1).await;
}

/// A later ban takes the place of an earlier one, also of a longer one.
pub async fn a_later_ban_replaces_an_earlier_one<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 2);
    subject.block(HOUR).await;
    subject.block(MINUTE).await;
    assert_eq!(subject.refused(1).await.retry_after(), MINUTE);
    subject.block(HOUR).await;
    assert_eq!(subject.refused(1).await.retry_after(), HOUR);
}

/// Lifting a ban that is not there makes no key; a reset lifts one, too.
pub async fn unblock_makes_no_key_and_reset_lifts_a_ban<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 2);
    assert!(!subject.unblock().await);
    assert!(!subject.reset().await, "unblock makes no key");
    subject.block(HOUR).await;
    assert!(subject.reset().await, "a ban is something");
    subject.assert_whole().await;
}

/// A ban is over when its time is, whatever is charged afterwards.
pub async fn a_ban_that_is_over_stays_over<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject("", algorithm, 2);
    subject.block(MINUTE).await;
    subject.advance(MINUTE);
    for _ in 0..2 {
        subject.admit(1).await;
    }
    let refused = subject.refused(1).await;
    assert!(!refused.blocked, "{refused:?}");
    assert!(!subject.unblock().await);
    subject.wait_out(&refused, 1).await;
}

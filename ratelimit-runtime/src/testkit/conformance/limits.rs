//! Several limits on one key.

use std::time::Duration;

use super::{Bench, HOUR, MINUTE, SECOND};
use crate::store::Store;
use crate::{Algorithm, Limit};

/// What one limit refuses is charged to none.
pub async fn a_call_is_charged_to_all_limits_or_none<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject_under("", algorithm, &[Limit::per_minute(2), Limit::per_hour(3)]);
    for _ in 0..2 {
        subject.admit(1).await;
    }
    for _ in 0..50 {
        assert_eq!(subject.refused(1).await.limit_index, 0);
    }
    subject.advance(MINUTE * 2);
    // Had the hour been charged for one of the fifty, it would be used up.
    subject.admit(1).await;
    assert_eq!(subject.refused(1).await.limit_index, 1);
}

/// An admission is decided by the limit with the least left, a refusal by the one with the longest wait; of equals by
/// the first.
pub async fn the_limit_that_decides_is_named<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let subject = bench.subject_under("tie", algorithm, &[Limit::per_minute(5), Limit::per_hour(5)]);
    let verdict = subject.admitted(1).await;
    assert_eq!((verdict.limit_index, verdict.remaining), (0, 4));

    let subject = bench.subject_under("least", algorithm, &[Limit::per_minute(9), Limit::per_hour(4)]);
    let verdict = subject.admitted(1).await;
    assert_eq!((verdict.limit_index, verdict.remaining), (1, 3));

    let subject = bench.subject_under("one", algorithm, &[Limit::per_minute(1), Limit::per_hour(5)]);
    subject.admit(1).await;
    assert_eq!(subject.refused(1).await.limit_index, 0);

    let limits = [Limit::per_minute(2), Limit::per_day(2), Limit::per_hour(2)];
    let subject = bench.subject_under("longest", algorithm, &limits);
    for _ in 0..2 {
        subject.admit(1).await;
    }
    assert_eq!(subject.refused(1).await.limit_index, 1, "all refuse, and the day waits longest");
}

/// The wait that a refusal names satisfies all limits, and is not a microsecond too long.
pub async fn the_wait_satisfies_all_limits<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let limits = [Limit::new(2, SECOND * 10), Limit::per_minute(3), Limit::new(7, HOUR + Duration::from_micros(333))];
    let subject = bench.subject_under("", algorithm, &limits);
    let mut seen = [false; 3];
    for _ in 0..40 {
        let verdict = subject.acquire(1).await;
        if verdict.allowed {
            subject.advance(Duration::from_micros(1_234_567));
        } else {
            if let Some(seen) = seen.get_mut(verdict.limit_index) {
                *seen = true;
            }
            subject.wait_out(&verdict, 1).await;
        }
    }
    assert!(seen.iter().filter(|seen| **seen).count() >= 2, "more than one limit refused: {seen:?}");
}

/// As many limits as a rule may have are kept on one key, each with its own window.
pub async fn eight_limits_are_kept<S: Store>(bench: Bench<S>, algorithm: Algorithm) {
    let limits: Vec<Limit> = (1..=8).map(|nth| Limit::new(20 + u64::from(nth), MINUTE * nth)).collect();
    let subject = bench.subject_under("", algorithm, &limits);
    for left in (0..21).rev() {
        let verdict = subject.admitted(1).await;
        assert_eq!((verdict.limit_index, verdict.remaining), (0, left));
    }
    assert_eq!(subject.refused(1).await.limit_index, 0);
    subject.advance(subject.horizon());
    subject.assert_whole().await;
}

//! Calendar quotas: what happens at midnight, and on a clock that is set back over it.

use super::*;
use ratelimit_runtime::CalendarUnit;

const HOUR: u64 = 60 * MINUTE;
/// From where a fake clock begins, 22:13:20 in UTC, to midnight.
const UNTIL_MIDNIGHT: u64 = 6_400 * SECOND;

/// A quota of so many a day in memory and on Redis.
fn daily(max: u64) -> Vec<Subject> {
    Subject::everywhere(Algorithm::FixedWindow, Limit::calendar(max, CalendarUnit::Day))
}

impl Subject {
    async fn admits(&self) -> bool {
        self.store.acquire(self.request()).await.unwrap().allowed
    }

    async fn left(&self) -> u64 {
        self.store.peek(self.request()).await.unwrap().remaining
    }
}

#[tokio::test]
async fn a_clock_set_back_and_forth_across_midnight_admits_no_day_twice() {
    for subject in daily(1) {
        assert!(subject.admits().await);
        for _ in 0..3 {
            subject.pass(UNTIL_MIDNIGHT - 1);
            assert!(!subject.admits().await, "{}", subject.what());
            subject.step_back(UNTIL_MIDNIGHT - 1);
        }
        subject.pass(UNTIL_MIDNIGHT);
        assert!(subject.admits().await, "{}", subject.what());
        for _ in 0..3 {
            subject.step_back(HOUR);
            let refused = subject.store.acquire(subject.request()).await.unwrap();
            // The day that was begun holds, to its end by the clock as it is.
            assert!(!refused.allowed, "{}", subject.what());
            assert_eq!(refused.retry_after_us, DAY + HOUR, "{}", subject.what());
            subject.pass(HOUR);
            assert!(!subject.admits().await, "{}", subject.what());
        }
        subject.pass(DAY);
        assert!(subject.admits().await, "{}", subject.what());
    }
}

/// A settlement goes to the day in which it comes; a refund to that of its charge.
#[tokio::test]
async fn settlements_and_refunds_across_midnight() {
    for subject in daily(10) {
        let what = subject.what();
        let request = subject.request().with_cost(3);
        subject.pass(UNTIL_MIDNIGHT - SECOND);
        let charged = subject.store.acquire(request).await.unwrap().ticket;
        let estimate = subject.store.acquire(request.reserving_estimate()).await.unwrap().ticket;
        subject.pass(SECOND);
        assert!(!subject.store.refund(request, charged).await.unwrap(), "{what}");
        assert_eq!(subject.left().await, 10, "{what}");
        // The reservation has left its window: all of what it did cost is charged now.
        let settled = subject.store.settle(request.reserving_estimate(), estimate, 4).await.unwrap();
        assert_eq!((settled.dropped, subject.left().await), (0, 6), "{what}");
        let tomorrow = subject.store.acquire(request).await.unwrap().ticket;
        assert!(subject.store.refund(request, tomorrow).await.unwrap(), "{what}");
        assert_eq!(subject.left().await, 6, "{what}");
    }
}

#[tokio::test]
async fn a_block_outlives_the_day() {
    for subject in daily(1) {
        let what = subject.what();
        subject.pass(UNTIL_MIDNIGHT - HOUR / 2);
        let blocking = subject.request().with_block(micros(HOUR));
        assert!(subject.store.acquire(blocking).await.unwrap().allowed, "{what}");
        assert!(subject.store.acquire(blocking).await.unwrap().blocked, "{what}");
        subject.pass(HOUR / 2);
        let refused = subject.store.peek(subject.request()).await.unwrap();
        assert_eq!((refused.blocked, refused.remaining, refused.retry_after_us), (true, 0, HOUR / 2), "{what}");
        assert!(subject.store.unblock(subject.request()).await.unwrap(), "{what}");
        assert!(subject.admits().await, "{what}");
    }
}

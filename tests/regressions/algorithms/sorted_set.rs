//! The log as a sorted set: whose members are all of one width, and nobody else's.

use super::*;
use ratelimit_runtime::store::StoreErrorKind;

/// Text sorts 10000000 before 9999999, so tickets repeated.
#[tokio::test]
async fn a_clock_that_stands_where_digits_are_added_admits_no_more() {
    for scripts in [true, false] {
        let subject = Subject::sorted_set(scripts, per(5, MINUTE));
        // To 9,999,998, from where a fake clock begins.
        subject.step_back(1_700_000_000_000_000 - 9_999_998);
        let mut admitted = 0;
        for _ in 0..50 {
            admitted += u32::from(subject.store.acquire(subject.request()).await.unwrap().allowed);
        }
        assert_eq!(admitted, 5, "{}", subject.what());
    }
}

#[tokio::test]
async fn members_of_somebody_else_are_an_error_in_every_operation() {
    let server = crate::support::redis::shared();
    for scripts in [true, false] {
        let foreign = [("1e18", "1"), ("nan", "1"), ("alice", "1e17"), ("9999998", "1"), ("ban", "inf")];
        let foreign =
            foreign.into_iter().chain([("1700000000000000", "inf"), ("1700000000000000", "1800000000000000")]);
        for (member, score) in foreign {
            let subject = Subject::sorted_set(scripts, per(5, MINUTE));
            server.cli(&["ZADD", &subject.key, score, member]);
            let what = format!("{member} at {score} in {}", subject.what());
            let request = subject.request();
            let store = &subject.store;
            let mut errors = vec![
                store.acquire(request).await.map(drop),
                store.peek(request).await.map(drop),
                store.refund(request, 1_700_000_000_000_000).await.map(drop),
                store.block(request, micros(MINUTE)).await,
                store.unblock(request).await.map(drop),
            ];
            if store.own().decides_together(&[request, request]) {
                errors.push(store.own().acquire_all(&[request, request]).await.map(drop));
            }
            for (operation, error) in errors.into_iter().enumerate() {
                let kind = error.unwrap_err().kind();
                assert_eq!(kind, StoreErrorKind::Misconfigured, "operation {operation}: {what}");
            }
            assert_eq!(server.cli(&["ZCARD", &subject.key]), "1", "{what}: nothing was written");
            server.cli(&["DEL", &subject.key]);
        }
    }
}

/// Refund the newest, admit again in the same microsecond, refund the old ticket again.
#[tokio::test]
async fn a_ticket_is_never_given_twice() {
    for scripts in [true, false] {
        for other in [scripts, !scripts] {
            let subject = Subject::sorted_set(scripts, per(3, MINUTE));
            let url = crate::support::redis::shared().url();
            let other = RedisStore::new(&url).unwrap().with_clock(subject.clock.clone()).mode(if other {
                RedisMode::Scripts
            } else {
                RedisMode::Transactions
            });
            let (store, request) = (&subject.store, subject.request());
            let first = store.acquire(request).await.unwrap().ticket;
            let second = store.acquire(request).await.unwrap().ticket;
            assert!(other.refund(request, second).await.unwrap());
            let third = store.acquire(request).await.unwrap().ticket;
            assert!(third > second, "{}: {second} was given again", subject.what());
            assert!(!store.refund(request, second).await.unwrap(), "{}", subject.what());
            // Also if nothing else is left, under a block, and if the clock is behind.
            assert!(store.refund(request, third).await.unwrap());
            assert!(other.refund(request, first).await.unwrap());
            assert_eq!(store.peek(request).await.unwrap().remaining, 3, "{}", subject.what());
            store.block(request, micros(SECOND)).await.unwrap();
            assert!(other.unblock(request).await.unwrap());
            subject.step_back(SECOND);
            let fourth = other.acquire(request).await.unwrap().ticket;
            assert!(fourth > third, "{}: {fourth} after {third}", subject.what());
            assert_eq!(store.peek(request).await.unwrap().remaining, 2, "{}", subject.what());
        }
    }
}

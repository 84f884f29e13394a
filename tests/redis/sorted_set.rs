//! The log as a sorted set: whose members are all of one width, and all written by the store.

use std::time::Duration;

use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store as _};

use super::{MINUTE, shared};
use crate::support::unique;

const SECOND: Duration = Duration::from_secs(1);

fn mode(scripts: bool) -> RedisMode {
    if scripts { RedisMode::Scripts } else { RedisMode::Transactions }
}

/// A log of one key, kept with scripts or without.
struct Log {
    store: RedisStore,
    clock: FakeClock,
    key: String,
    scripts: bool,
    limits: [Limit; 1],
}

impl Log {
    fn new(scripts: bool, max: u64) -> Self {
        let clock = FakeClock::new();
        let store = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone()).mode(mode(scripts));
        Self { store, clock, key: unique("log"), scripts, limits: [Limit::new(max, MINUTE)] }
    }

    /// The key as stored.
    fn stored(&self) -> String {
        format!("{}{}", self.key, if self.scripts { "" } else { "%log" })
    }

    fn request(&self) -> Request<'_> {
        Request::new(self.key.as_bytes(), Algorithm::SlidingWindow, &self.limits)
    }
}

/// Text sorts 10000000 before 9999999, so tickets repeated.
#[tokio::test]
async fn a_clock_that_stands_where_digits_are_added_admits_no_more() {
    for scripts in [true, false] {
        let subject = Log::new(scripts, 5);
        // To 9,999,998, from where a fake clock begins.
        subject.clock.step_back(Duration::from_micros(1_700_000_000_000_000 - 9_999_998));
        let mut admitted = 0;
        for _ in 0..50 {
            admitted += u32::from(subject.store.acquire(subject.request()).await.unwrap().allowed);
        }
        assert_eq!(admitted, 5, "scripts: {scripts}");
    }
}

#[tokio::test]
async fn foreign_members_are_an_error_in_every_operation() {
    let server = shared();
    for scripts in [true, false] {
        let foreign = [("1e18", "1"), ("nan", "1"), ("alice", "1e17"), ("9999998", "1"), ("ban", "inf")];
        let foreign =
            foreign.into_iter().chain([("1700000000000000", "inf"), ("1700000000000000", "1800000000000000")]);
        // What a double counts by twos: one more than it is itself.
        let foreign = foreign.chain([("9999999999999998", "9999999999999998")]);
        for (member, score) in foreign {
            let subject = Log::new(scripts, 5);
            server.cli(&["ZADD", &subject.stored(), score, member]);
            let what = format!("{member} at {score} with scripts: {scripts}");
            let request = subject.request();
            let store = &subject.store;
            let errors = [
                store.acquire(request).await.map(drop),
                store.peek(request).await.map(drop),
                store.refund(request, 1_700_000_000_000_000).await.map(drop),
                store.block(request, MINUTE).await,
                store.unblock(request).await.map(drop),
            ];
            for (operation, error) in errors.into_iter().enumerate() {
                let kind = error.unwrap_err().kind();
                assert_eq!(kind, StoreErrorKind::Misconfigured, "operation {operation}: {what}");
            }
            assert_eq!(server.cli(&["ZCARD", &subject.stored()]), "1", "{what}: nothing was written");
            server.cli(&["DEL", &subject.stored()]);
        }
    }
}

/// Refund the newest, admit again in the same microsecond, refund the old ticket again.
#[tokio::test]
async fn a_ticket_is_never_given_twice() {
    for scripts in [true, false] {
        let subject = Log::new(scripts, 3);
        let (store, request) = (&subject.store, subject.request());
        let first = store.acquire(request).await.unwrap().ticket;
        let second = store.acquire(request).await.unwrap().ticket;
        assert!(store.refund(request, second).await.unwrap());
        let third = store.acquire(request).await.unwrap().ticket;
        assert!(third > second, "{second} was given again, scripts: {scripts}");
        assert!(!store.refund(request, second).await.unwrap(), "scripts: {scripts}");
        // Also if nothing else is left, under a block, and if the clock is behind.
        assert!(store.refund(request, third).await.unwrap());
        assert!(store.refund(request, first).await.unwrap());
        assert_eq!(store.peek(request).await.unwrap().remaining, 3, "scripts: {scripts}");
        store.block(request, SECOND).await.unwrap();
        assert!(store.unblock(request).await.unwrap());
        subject.clock.step_back(SECOND);
        let fourth = store.acquire(request).await.unwrap().ticket;
        assert!(fourth > third, "{fourth} after {third}, scripts: {scripts}");
        assert_eq!(store.peek(request).await.unwrap().remaining, 2, "scripts: {scripts}");
    }
}

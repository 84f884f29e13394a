//! Decisions after the clock has stepped back, also into a window whose units were removed.

#![cfg(feature = "testkit")]
#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;
use crate::rule::{Algorithm, Limit};
use crate::testkit::FakeClock;

const SECOND: Duration = Duration::from_secs(1);

fn admitted(store: &MemoryStore, request: Request<'_>) -> u64 {
    (0..10)
        .take_while(|_| store.acquire(request).known().unwrap().unwrap().allowed)
        .count() as u64
}

#[test]
fn a_log_admits_nothing_into_a_window_of_units_that_it_has_removed() {
    for max in [3, 5] {
        let (clock, limits) = (FakeClock::new(), [Limit::per_minute(max)]);
        let store = MemoryStore::new().with_clock(clock.clone());
        let request = Request::new(b"key", Algorithm::SlidingWindow, &limits);
        assert!(store.acquire(request).known().unwrap().unwrap().allowed);
        clock.advance(SECOND * 50);
        assert_eq!(admitted(&store, request), max - 1);
        clock.advance(SECOND * 11);
        assert_eq!(store.peek(request).known().unwrap().unwrap().remaining, 1);
        clock.step_back(SECOND * 31);
        assert_eq!(admitted(&store, request), 1);
        clock.advance(SECOND * 81);
        assert_eq!(
            admitted(&store, request),
            max - 1,
            "that one counts from the end of the window of the removed"
        );
    }
}

#[test]
fn a_bucket_takes_nothing_back_that_was_charged_later_than_its_newest_write() {
    let (clock, limits) = (FakeClock::new(), [Limit::per_minute(5)]);
    let store = MemoryStore::new().with_clock(clock.clone());
    let request = Request::new(b"key", Algorithm::TokenBucket, &limits);
    clock.advance(SECOND * 60);
    let ticket = store.acquire(request).known().unwrap().unwrap().ticket;
    store.reset(request).known().unwrap().unwrap();
    clock.step_back(SECOND * 60);
    assert_eq!(admitted(&store, request), 5);
    store.refund(request, ticket).known().unwrap().unwrap();
    assert_eq!(admitted(&store, request), 0);
}

//! How long keys keep their places of which nothing counts any more.

use std::ops::Range;

use super::*;

fn store(keys: usize) -> (MemoryStore, FakeClock) {
    let clock = FakeClock::new();
    (
        MemoryStore::with_capacity(keys).with_clock(clock.clone()),
        clock,
    )
}

/// What is charged has drained after a millisecond.
fn charge(store: &MemoryStore, keys: Range<u64>) {
    let limits = [Limit::per_second(1_000)];
    for key in keys {
        let key = key.to_be_bytes();
        let request = Request::new(&key, Algorithm::LeakyBucket, &limits);
        assert!(store.acquire(request).known().unwrap().unwrap().allowed);
    }
}

/// Else calls at short intervals would each be a newcomer's.
#[test]
fn a_key_that_has_drained_is_kept_for_a_second_and_no_longer() {
    let (store, clock) = store(100_000);
    charge(&store, 0..10_000);
    clock.advance(micros(SECOND / 2));
    charge(&store, 10_000..30_000);
    assert_eq!(store.len(), 30_000);
    clock.advance(micros(SECOND / 2));
    charge(&store, 30_000..40_000);
    assert!(store.len() <= 10_000, "{} keys", store.len());
}

#[test]
fn a_full_store_is_swept_at_any_time() {
    let (store, clock) = store(100);
    charge(&store, 0..100);
    clock.advance(micros(2_000));
    charge(&store, 100..102);
    assert_eq!(store.len(), 2);
}

//! Several keys decided together in memory: all of them are charged, or none.

use std::time::Duration;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Limit, MemoryStore, Store};

use crate::subject::ALGORITHMS;

#[tokio::test]
async fn a_stack_that_names_a_key_twice_and_is_refused_leaves_nothing_of_it() {
    for &algorithm in ALGORITHMS {
        let clock = FakeClock::new();
        let store = MemoryStore::new().with_clock(clock.clone());
        let limits = [Limit::new(1, Duration::from_secs(60))];
        let request = Request::new(b"key", algorithm, &limits);
        let verdicts = (&store as &dyn Store).own().acquire_all(&[request, request]).await.unwrap();
        assert!(!verdicts.iter().all(|verdict| verdict.allowed), "{algorithm}: {verdicts:?}");
        let peeked = store.peek(request).await.unwrap();
        assert!(peeked.allowed && peeked.remaining == 1, "{algorithm}: {peeked:?}");
        // A log gives no ticket twice, and remembers the last one until the clock has passed it.
        clock.advance(Duration::from_micros(2));
        assert!(!store.reset(request).await.unwrap(), "{algorithm}: nothing is kept of the key");
    }
}

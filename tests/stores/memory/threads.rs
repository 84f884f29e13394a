//! Threads that share a store.

use std::collections::BTreeSet;
use std::thread;

use super::*;

/// Each admission leaves another number, so they came one after the other.
#[test]
fn threads_admit_exactly_max() {
    const MAX: u64 = 1_000;
    let limits = [per(MAX, DAY)];
    for &algorithm in ALGORITHMS {
        let store = MemoryStore::new().with_clock(FakeClock::new());
        let request = Request::new(b"key", algorithm, &limits);
        let calls = || -> Vec<u64> {
            let verdicts = (0..MAX).map(|_| store.acquire(request).known().unwrap().unwrap());
            let admitted = verdicts.filter(|verdict| verdict.allowed);
            admitted.map(|verdict| verdict.remaining).collect()
        };
        let left: Vec<u64> = thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(calls));
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        assert_eq!(left.len(), 1_000, "{algorithm}");
        assert_eq!(BTreeSet::from_iter(left), (0..MAX).collect(), "{algorithm}");
    }
}

//! To be counted, a check allocates nothing: what a recorder takes for its own handles is not ours.
//! Apart from other tests, because a rule knows eight limiters at once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use ratelimit_cost::{Ready, Recording, Work};

fn allocations(ready: &Ready, checks: u64) -> u64 {
    allocation_counter::measure(|| ready.measured(checks)).count_total
}

#[test]
fn to_be_counted_allocates_nothing() {
    for (recording, of_its_own) in [(Recording::Debugging, 0), (Recording::Prometheus, 1_000)] {
        let recorder = recording.recorder().unwrap();
        metrics::with_local_recorder(&*recorder, || {
            for work in [Work::Sliding, Work::SlidingRefused, Work::RefusedAgain, Work::ByHand] {
                let ready = Ready::new(work);
                let (none, many) = (allocations(&ready, 0), allocations(&ready, 1_000));
                assert_eq!(many - none, of_its_own, "{work:?} counted by {recording:?}");
            }
        });
    }
}

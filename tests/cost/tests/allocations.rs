//! A check on a known key allocates nothing, by the attribute or by hand, admitted or refused.

use ratelimit_cost::{Ready, Work};

fn allocations(ready: &Ready, checks: u64) -> u64 {
    allocation_counter::measure(|| ready.measured(checks)).count_total
}

#[test]
fn a_check_allocates_nothing() {
    for work in Work::ALL {
        let ready = Ready::new(work);
        let (none, many) = (allocations(&ready, 0), allocations(&ready, 1_000));
        if matches!(work, Work::Governor | Work::GovernorDenied) {
            assert!(many >= none + 1_000, "the counter counts: {many}");
        } else {
            assert_eq!(many, none, "{work:?}");
        }
    }
}

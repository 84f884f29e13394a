//! A check on a known key allocates nothing, by the attribute or by hand, admitted or refused; nor
//! does one by hand that waits for a Redis server.

use ratelimit_cost::{Load, OnRedis, Ready, Work};

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

/// The text of each key is the caller's own. Buffers grow now and then.
#[test]
fn a_check_on_redis_allocates_nothing() {
    const CHECKS: u64 = 4_096;
    for load in Load::ALL {
        let ready = OnRedis::new(load);
        let allocations = |checks| allocation_counter::measure(|| ready.measured(checks)).count_total;
        allocations(CHECKS);
        let (once, twice) = (allocations(CHECKS), allocations(2 * CHECKS));
        assert!(twice - once <= CHECKS + CHECKS / 100, "{load:?}: {} for {CHECKS} checks", twice - once);
    }
}

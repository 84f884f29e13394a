//! A check on a known key allocates nothing, by the attribute or by hand, admitted or refused,
//! counted by a recorder or not. One that waits for a Redis server allocates what its command and
//! its reply are made of.

use metrics_util::debugging::DebuggingRecorder;
use ratelimit_cost::{Load, OnRedis, Ready, Work};

fn allocations(ready: &Ready, checks: u64) -> u64 {
    allocation_counter::measure(|| ready.measured(checks)).count_total
}

#[test]
fn a_check_allocates_nothing() {
    let recorder = DebuggingRecorder::new();
    for work in Work::ALL {
        let ready = Ready::new(work);
        // What a run allocates once, such as the scheduler's list of tasks that give way, is no
        // check's.
        ready.measured(1_000);
        let (many, more) = (allocations(&ready, 1_000), allocations(&ready, 2_000));
        if matches!(work, Work::Governor | Work::GovernorDenied) {
            assert!(more >= many + 1_000, "the counter counts: {more}");
        } else {
            assert_eq!(more, many, "{work:?}");
        }
        // The first decisions that it counts make its series.
        metrics::with_local_recorder(&recorder, || {
            ready.measured(1_000);
            assert_eq!(allocations(&ready, 2_000), more, "{work:?}, counted");
        });
    }
}

/// The text of each key is one of them.
#[test]
fn a_check_on_redis_allocates_little() {
    const CHECKS: u64 = 4_096;
    for load in [Load::One, Load::Some, Load::Many, Load::Hot, Load::Cold] {
        let ready = OnRedis::new(load);
        let allocations =
            |checks| allocation_counter::measure(|| ready.measured(checks)).count_total;
        allocations(CHECKS);
        // On a busy machine a connection may be unread for 5 ms, and callers queue: the least counts.
        let each = (0..5).map(|_| {
            let (once, twice) = (allocations(CHECKS), allocations(2 * CHECKS));
            twice.saturating_sub(once).div_ceil(CHECKS)
        });
        let each = each.fold(u64::MAX, u64::min);
        // One caller has a call, its bytes and its reply to itself; others share them.
        let most = match load {
            Load::One | Load::Cold => 13,
            _ => 8,
        };
        assert!(each <= most, "{load:?}: {each} for each check");
    }
}

/// The text of the key is all, which the caller makes.
#[test]
fn a_unit_that_was_taken_ahead_is_spent_without_allocating() {
    const CHECKS: u64 = 64;
    let ready = OnRedis::new(Load::Spent);
    let allocations = |checks| allocation_counter::measure(|| ready.measured(checks)).count_total;
    allocations(CHECKS);
    // Beside some of them the link asks the server how it is, or the task gives way to others.
    let least = |checks| (0..4).map(|_| allocations(checks)).min();
    let [once, twice] = [CHECKS, 2 * CHECKS].map(least);
    let spent = twice.unwrap_or(u64::MAX) - once.unwrap_or_default();
    assert!(spent <= CHECKS + CHECKS / 8, "{spent}");
}

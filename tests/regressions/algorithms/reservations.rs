//! Reservations stay apart from what drains: they are given back whole, charged when they are
//! committed, and forgotten when nobody settles them.

use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// Calls that come so far apart, of which the one before the last so many returns, and does not
/// count.
async fn assert_nothing_is_used(subject: &Subject, calls: u64, apart: u64, at_once: usize) {
    let mut open = VecDeque::new();
    for call in 0..calls {
        subject.pass(apart);
        if open.len() == at_once {
            let ticket = open.pop_front().unwrap();
            let settled = subject.store.settle(subject.request().reserving(), ticket, 0).await.unwrap();
            // A fixed window takes along what is open when it ends.
            assert!(settled.was_open || subject.algorithm == Algorithm::FixedWindow, "{}", subject.what());
        }
        let verdict = subject.store.acquire(subject.request().reserving()).await.unwrap();
        assert!(verdict.allowed, "{}: call {call}: {verdict:?}", subject.what());
        open.push_back(verdict.ticket);
    }
}

/// 1,000 calls of 30 ms at about 300 a second, all of which succeed, under `count = "err"` and 100
/// a second.
#[tokio::test]
async fn calls_that_do_not_count_use_nothing_of_a_fast_limit() {
    for &algorithm in ALGORITHMS {
        for subject in [Subject::memory(algorithm, per(100, SECOND)), Subject::redis(algorithm, per(100, SECOND))] {
            assert_nothing_is_used(&subject, 1_000, 3_300, 9).await;
        }
    }
}

/// Ten callers, each call takes 700 ms and succeeds, under 100 a minute.
#[tokio::test]
async fn slow_calls_that_do_not_count_use_nothing() {
    for &algorithm in ALGORITHMS {
        assert_nothing_is_used(&Subject::memory(algorithm, per(100, MINUTE)), 10 * 60 * 10 / 7, 70_000, 10).await;
    }
}

/// Three failures of five a minute, and then successes: what is left is what the failures leave.
#[tokio::test]
async fn successes_after_failures_leave_what_has_drained() {
    for &algorithm in ALGORITHMS {
        for subject in [Subject::memory(algorithm, per(5, MINUTE)), Subject::redis(algorithm, per(5, MINUTE))] {
            for counts in [true, true, true, false, false] {
                let verdict = subject.store.acquire(subject.request().reserving()).await.unwrap();
                subject.pass(1_000);
                let settled = if counts {
                    subject.store.settle(subject.request().reserving(), verdict.ticket, 1).await.unwrap().was_open
                } else {
                    subject.store.settle(subject.request().reserving(), verdict.ticket, 0).await.unwrap().was_open
                };
                assert!(settled, "{}", subject.what());
            }
            assert_eq!(subject.store.peek(subject.request()).await.unwrap().remaining, 2, "{}", subject.what());
            for _ in 0..6 {
                let verdict = subject.store.acquire(subject.request().reserving()).await.unwrap();
                assert!(verdict.allowed, "{}", subject.what());
                subject.pass(8 * SECOND);
                assert!(subject.store.settle(subject.request().reserving(), verdict.ticket, 0).await.unwrap().was_open);
            }
            let left = subject.store.peek(subject.request()).await.unwrap().remaining;
            if algorithm.has_burst() {
                assert_eq!(left, 5, "{}: 48 s refill four", subject.what());
            }
        }
    }
}

/// Processes that die with reservations open, on a key that stays in use.
#[tokio::test]
async fn reservations_nobody_settles_are_forgotten_while_the_key_is_in_use() {
    for &algorithm in ALGORITHMS {
        for subject in [Subject::memory(algorithm, per(4, MINUTE)), Subject::redis(algorithm, per(4, MINUTE))] {
            let mut lost = Vec::new();
            for _ in 0..3 {
                lost.push(subject.store.acquire(subject.request().reserving()).await.unwrap().ticket);
                subject.pass(SECOND);
            }
            // One reservation at a time goes on, and is always settled.
            let horizon = u64::try_from(subject.request().horizon().as_micros()).unwrap();
            for _ in 0..40 {
                subject.pass(horizon / 10);
                let verdict = subject.store.acquire(subject.request().reserving()).await.unwrap();
                if verdict.allowed {
                    assert!(
                        subject.store.settle(subject.request().reserving(), verdict.ticket, 0).await.unwrap().was_open
                    );
                }
            }
            let verdict = subject.store.peek(subject.request()).await.unwrap();
            assert_eq!((verdict.allowed, verdict.remaining), (true, 4), "{}", subject.what());
            let left = async || subject.store.peek(subject.request()).await.unwrap().remaining;
            for ticket in lost {
                let (request, before) = (subject.request().reserving(), left().await);
                assert!(!subject.store.settle(request, ticket, 0).await.unwrap().was_open, "{}", subject.what());
                // One that is sent again charges nothing anew; the first time it does.
                assert!(!subject.store.settle(request.sent_again(), ticket, 1).await.unwrap().was_open);
                assert_eq!(left().await, before, "{}", subject.what());
                assert!(!subject.store.settle(request, ticket, 1).await.unwrap().was_open, "{}", subject.what());
                assert_eq!(left().await, before - 1, "{}", subject.what());
            }
        }
    }
}

/// Most calls that reserve by `count` give it back: those behind them are told a short wait, and
/// are not blocked.
#[tokio::test]
async fn calls_that_are_still_running_lead_to_no_block() {
    for &algorithm in ALGORITHMS {
        for subject in [Subject::memory(algorithm, per(3, MINUTE)), Subject::redis(algorithm, per(3, MINUTE))] {
            let what = subject.what();
            let mut tickets = Vec::new();
            for _ in 0..3 {
                tickets.push(subject.store.acquire(subject.request().reserving()).await.unwrap().ticket);
            }
            let growing = subject.request().with_growing_block(micros(MINUTE), micros(DAY));
            for request in [subject.request(), subject.request().with_block(micros(DAY)), growing, growing.reserving()]
            {
                let refused = subject.store.acquire(request).await.unwrap();
                assert_eq!((refused.allowed, refused.blocked, refused.remaining), (false, false, 0), "{what}");
                assert_eq!(refused.retry_after_us, 50_000, "{what}: {refused:?}");
            }
            // One of them counts. A call that needs more than the others leave waits for that one.
            assert!(subject.store.settle(subject.request().reserving(), tickets[0], 1).await.unwrap().was_open);
            let light = subject.store.acquire(subject.request().with_block(micros(DAY))).await.unwrap();
            assert_eq!((light.blocked, light.retry_after_us), (false, 50_000), "{what}: {light:?}");
            let heavy = subject.request().with_cost(3);
            let refused = subject.store.peek(heavy).await.unwrap();
            assert!(refused.retry_after_us > SECOND, "{what}: {refused:?}");
            let blocked = subject.store.acquire(heavy.with_block(micros(DAY))).await.unwrap();
            assert!(blocked.blocked && blocked.remaining == 0 && blocked.retry_after_us >= DAY, "{what}: {blocked:?}");
            // What was open when the block came may be given back; the block stays.
            for &ticket in &tickets[1..] {
                assert!(subject.store.settle(subject.request().reserving(), ticket, 0).await.unwrap().was_open);
            }
            let refused = subject.store.acquire(subject.request()).await.unwrap();
            assert!(refused.blocked && refused.retry_after_us == DAY, "{what}: {refused:?}");
        }
    }
}

/// An estimate is a charge: it makes the calls behind it wait as long, and blocks as well.
#[tokio::test]
async fn a_block_comes_for_open_estimates_as_it_does_for_charges() {
    for &algorithm in ALGORITHMS {
        for subject in [Subject::memory(algorithm, per(3, MINUTE)), Subject::redis(algorithm, per(3, MINUTE))] {
            let what = subject.what();
            for _ in 0..3 {
                assert!(subject.store.acquire(subject.request().reserving_estimate()).await.unwrap().allowed);
            }
            let refused = subject.store.acquire(subject.request()).await.unwrap();
            assert!(!refused.allowed && !refused.blocked, "{what}: {refused:?}");
            assert!((10 * SECOND..=2 * MINUTE).contains(&refused.retry_after_us), "{what}: {refused:?}");
            let blocking = subject.request().with_block(micros(DAY));
            assert!(subject.store.acquire(blocking).await.unwrap().blocked, "{what}");
        }
    }
}

/// What an interval of one window holds at most, half-open, in calls that were not given back, as
/// guide/algorithms.md says.
fn bound(algorithm: Algorithm, limit: Limit) -> u64 {
    let (half_open, closed) = Reference::new(algorithm).bounds(limit);
    // Of counters it is one less if nothing is given back; a released reservation is.
    if matches!(algorithm, Algorithm::SlidingCounter | Algorithm::FixedWindow) { closed } else { half_open }
}

#[derive(Debug, Clone)]
enum Step {
    Acquire { cost: u64, reserve: bool },
    Settle { which: usize, commit: bool },
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pass = prop_oneof![4 => 0..2_500_u64, 2 => Just(999_u64), 1 => Just(1_000), 1 => Just(1), 1 => 0..30_000_u64];
    let step = prop_oneof![
        5 => (prop_oneof![3 => Just(1_u64), 1 => 1..5_u64], any::<bool>())
            .prop_map(|(cost, reserve)| Step::Acquire { cost, reserve }),
        4 => (0..4_usize, prop::bool::weighted(0.7)).prop_map(|(which, commit)| Step::Settle { which, commit }),
        4 => pass.prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..200)
}

/// With calls that reserve, and commit or release later or never: no interval holds more than the
/// page says.
#[test]
fn no_interval_passes_its_bound_whatever_is_reserved() {
    let cases = std::env::var("RATELIMIT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let limit = (1..8_u64, prop::option::of(1..12_u64)).prop_map(|(max, burst)| {
        let limit = per(max, 10_000);
        burst.map_or(limit, |burst| limit.with_burst(burst))
    });
    let result = runner.run(&(limit, steps()), |(limit, steps)| {
        for &algorithm in ALGORITHMS {
            let busiest = runtime.block_on(busiest(algorithm, limit, &steps));
            let most = bound(algorithm, limit);
            prop_assert!(busiest <= most, "{algorithm:?}: {busiest} in an interval, at most {most}");
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

async fn busiest(algorithm: Algorithm, limit: Limit, steps: &[Step]) -> u64 {
    let subject = Subject::memory(algorithm, limit);
    let most = if algorithm.has_burst() { limit.capacity() } else { limit.max() };
    let mut now = 0;
    let mut admitted: Vec<(u64, u64)> = Vec::new();
    // Index in `admitted`, ticket, cost.
    let mut open: Vec<(usize, u64, u64)> = Vec::new();
    for step in steps {
        match *step {
            Step::Acquire { cost, reserve } => {
                let request = subject.request().with_cost(cost.min(most));
                let request = if reserve { request.reserving() } else { request };
                let verdict = subject.store.acquire(request).await.unwrap();
                if verdict.allowed {
                    if reserve {
                        open.push((admitted.len(), verdict.ticket, request.cost()));
                    }
                    admitted.push((now, request.cost()));
                }
            }
            Step::Settle { which, commit } if which < open.len() => {
                let (index, ticket, cost) = open.remove(which);
                let request = subject.request().with_cost(cost).reserving();
                if commit {
                    let _ = subject.store.settle(request, ticket, cost).await.unwrap();
                } else if subject.store.settle(request, ticket, 0).await.unwrap().was_open {
                    admitted[index].1 = 0;
                }
            }
            Step::Settle { .. } => {}
            Step::Pass(by) => {
                subject.pass(by);
                now += by;
            }
        }
    }
    let window = limit.window_us();
    let ending = |&(end, _): &(u64, u64)| {
        let inside = admitted.iter().filter(|&&(at, _)| at <= end && end < at + window);
        inside.map(|(_, cost)| cost).sum::<u64>()
    };
    admitted.iter().map(ending).max().unwrap_or(0)
}

//! What is admitted, with units that are taken ahead, by one store and by several.

use std::collections::VecDeque;
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, Store};

use super::{LEASE, MAX, spend, stores, used};
use crate::support::random::Random;
use crate::support::unique;

/// One question adds few units to a log. Of a busy one, more are on their way while the first are
/// spent: no more than a quarter of what is left, and none without a call.
#[tokio::test]
async fn a_busy_log_is_taken_ahead_while_it_is_spent() {
    const MAX: u64 = 20_000;
    let clock = FakeClock::new();
    let [store, other] = stores(&clock).await;
    let (key, limits) = (
        unique("busy"),
        [Limit::new(MAX, Duration::from_secs(3_600))],
    );
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    let request = request.with_prefetch(LEASE);
    let mut most_held = 0;
    for calls in 1..=MAX {
        let verdict = store.acquire(request).await.unwrap();
        assert!(verdict.allowed, "call {calls}: {verdict:?}");
        if calls % 250 == 0 {
            // Questions that are on their way arrive before this one, or before the next.
            let seen = [other.peek(request).await, other.peek(request).await];
            let [_, left] = seen.map(|seen| seen.unwrap().remaining);
            let held = MAX - calls - left;
            assert!(
                held <= (MAX - calls + 1_000) / 4,
                "{held} after {calls} calls"
            );
            most_held = most_held.max(held);
        }
    }
    assert!((2_000..=4_000).contains(&most_held), "{most_held}");
    assert!(!store.acquire(request).await.unwrap().allowed);
    assert_eq!(other.peek(request).await.unwrap().remaining, 0);
}

/// The first of several leases is over, and nobody has given back yet: the others are spent.
#[tokio::test]
async fn units_of_a_lease_that_lasts_are_spent_behind_those_of_one_that_is_over() {
    let clock = FakeClock::new();
    let [store, other] = stores(&clock).await;
    let (key, limits) = (
        unique("behind"),
        [Limit::new(20_000, Duration::from_secs(3_600))],
    );
    let plain = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    let request = plain.with_prefetch(Duration::from_secs(10));
    for _ in 0..6_500 {
        clock.advance(Duration::from_micros(100));
        assert!(store.acquire(request).await.unwrap().allowed);
    }
    for cost in [1_000, 1] {
        while other.acquire(plain.with_cost(cost)).await.unwrap().allowed {}
    }
    clock.advance(Duration::from_secs(9));
    let mut is_refused = false;
    for step in 0..150 {
        clock.advance(Duration::from_millis(10));
        let verdict = store.acquire(request).await.unwrap();
        is_refused |= !verdict.allowed;
        assert!(
            !(is_refused && verdict.allowed && verdict.cached),
            "step {step}"
        );
    }
}

/// The most that is admitted in any interval of `d` microseconds, beyond what drains in it.
fn most_beyond(admitted: &[(u64, u64)], max: u64, window: u64) -> u128 {
    // In units times the window: prefix sums less what has drained until then.
    let (mut sum, mut least, mut most) = (0_i128, i128::MAX, 0);
    for &(at, cost) in admitted {
        let drained = i128::from(at) * i128::from(max);
        least = least.min(sum - drained);
        sum += i128::from(cost) * i128::from(window);
        most = most.max(sum - drained - least);
    }
    most.unsigned_abs().div_ceil(u128::from(window))
}

/// The most that is admitted in any window.
fn most_in_window(admitted: &[(u64, u64)], window: u64) -> u64 {
    let mut inside = VecDeque::new();
    let mut most = 0;
    for &(at, cost) in admitted {
        inside.push_back((at, cost));
        while inside
            .front()
            .is_some_and(|(first, _)| first + window <= at)
        {
            inside.pop_front();
        }
        most = most.max(inside.iter().map(|(_, cost)| cost).sum());
    }
    most
}

/// Random calls of three stores, by one clock, which moves between calls alone.
async fn play(algorithm: Algorithm, mut random: Random, pace: u64) {
    let lease = Duration::from_secs(10);
    let (max, window) = (400, 50 * lease);
    let window_us = u64::try_from(window.as_micros()).unwrap();
    let clock = FakeClock::new();
    let stores: [_; 3] = stores(&clock).await;
    let (key, limits) = (unique("any"), [Limit::new(max, window)]);
    let (mut admitted, mut ahead) = (Vec::new(), 0);
    for _ in 0..2_500 {
        let [first, second, third] = &stores;
        let store = random.of(&[first, first, first, second, third]);
        let cost = random.of(&[1, 1, 1, 1, 2]);
        let request = Request::new(key.as_bytes(), algorithm, &limits)
            .with_prefetch(lease)
            .with_cost(cost);
        let verdict = store.acquire(request).await.unwrap();
        if verdict.allowed {
            admitted.push((u64::try_from(clock.now().as_micros()).unwrap(), cost));
            ahead += u64::from(verdict.cached);
        }
        match random.below(1_000) {
            0 => clock.advance(Duration::from_secs(11)),
            1 => clock.advance(window / 3),
            2 => clock.step_back(Duration::from_secs(random.below(5))),
            _ => clock.advance(Duration::from_micros(random.below(1_000 * pace))),
        }
    }
    assert!(ahead > 0, "{algorithm}");
    // Time went back: what was admitted then counts as late as what was before.
    let mut latest = 0;
    for (at, _) in &mut admitted {
        latest = latest.max(*at);
        *at = latest;
    }
    let in_window = most_in_window(&admitted, window_us);
    match algorithm {
        Algorithm::SlidingWindow => assert!(in_window <= max, "{in_window}"),
        Algorithm::SlidingCounter => assert!(in_window < 2 * max, "{in_window}"),
        Algorithm::FixedWindow => assert!(in_window <= 2 * max, "{in_window}"),
        _ => {
            let most = most_beyond(&admitted, max, window_us);
            assert!(most <= u128::from(max), "{algorithm}: {most}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bound_is_passed_whatever_time_does_and_whichever_store_is_asked() {
    let mut plays = Vec::new();
    for &algorithm in Algorithm::ALL {
        // From a load below the limit to some times as much.
        for pace in [100, 500, 2_000] {
            plays.push(tokio::spawn(play(algorithm, Random::another(), pace)));
        }
    }
    for play in plays {
        play.await.unwrap();
    }
}

#[tokio::test]
async fn what_is_taken_ahead_of_a_bucket_does_not_drain_within_its_lease() {
    let (lease, window) = (Duration::from_secs(10), Duration::from_secs(500));
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        // Calls that cost a thousandth of the limit; the second one is counted in ticks.
        for max in [1_000, 10_000_000] {
            let clock = FakeClock::new();
            let [first, other] = stores(&clock).await;
            let (key, limits) = (unique("drains"), [Limit::new(max, window)]);
            let request = Request::new(key.as_bytes(), algorithm, &limits)
                .with_prefetch(lease)
                .with_cost(max / 1_000);
            let (calls, _) = spend(&first, request).await;
            let mut all = calls;
            clock.advance(lease * 99 / 100);
            // All that others can have.
            let plain = request.with_prefetch(Duration::ZERO);
            while other.acquire(plain).await.unwrap().allowed {
                all += 1;
            }
            let ahead = all;
            while first.acquire(request).await.unwrap().allowed {
                all += 1;
            }
            assert!(all - ahead >= 2, "{algorithm}, {max}");
            // What the first calls were charged has drained, and nothing of what was taken ahead.
            assert!(
                (1_000..1_000 + calls).contains(&all),
                "{algorithm}, {max}: {all} of 1,000, {calls} of them early"
            );
        }
    }
}

/// What a process that dies has taken drains once its lease is over, and holds nothing up after.
#[tokio::test]
async fn lost_units_of_a_bucket_keep_no_others_from_draining() {
    let (lease, limits) = (
        Duration::from_secs(10),
        [Limit::new(MAX, Duration::from_secs(500))],
    );
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let (clock, key) = (FakeClock::new(), unique("lost"));
        let stores: [_; 6] = stores(&clock).await;
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        for store in &stores {
            clock.advance(lease * 10);
            let _ = spend(store, request).await;
        }
        let before = used(&stores[0], request).await;
        clock.advance(lease * 9 / 10);
        assert!(used(&stores[0], request).await < before, "{algorithm}");
    }
}

#[tokio::test]
async fn a_refusal_for_what_another_store_holds_is_known_for_a_lease_at_most() {
    // Shorter than a refusal is known otherwise, and longer than the test takes by the real clock,
    // at whose end of the lease the units are given back.
    let lease = Duration::from_millis(900);
    let clock = FakeClock::new();
    let [first, other] = stores(&clock).await;
    for &algorithm in Algorithm::ALL {
        let (key, limits) = (unique("held"), [Limit::new(40, Duration::from_secs(5_000))]);
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let _ = spend(&first, request).await;
        while other.acquire(request).await.unwrap().allowed {}
        assert!(other.acquire(request).await.unwrap().cached);
        first.settled().await.unwrap();
        clock.advance(lease);
        let admitted = other.acquire(request).await.unwrap();
        assert!(admitted.allowed, "{algorithm}: {admitted:?}");
    }
}

#[tokio::test]
async fn a_lease_ends_with_the_window_that_was_charged() {
    let lease = Duration::from_secs(10);
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingCounter] {
        let clock = FakeClock::new();
        let [store] = stores(&clock).await;
        let (key, window) = (unique("window"), 50 * lease);
        let limits = [Limit::new(MAX, window)];
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        assert!(store.acquire(request).await.unwrap().allowed);
        clock.advance(window * 486 / 500);
        for _ in 0..100 {
            let _ = spend(&store, request).await;
        }
        clock.advance(Duration::from_secs(9));
        store.settled().await.unwrap();
        let _ = spend(&store, request).await;
        clock.advance(Duration::from_millis(4_900));
        assert!(store.acquire(request).await.unwrap().cached, "{algorithm}");
        clock.advance(Duration::from_millis(100));
        assert!(!store.acquire(request).await.unwrap().cached, "{algorithm}");
    }
}

//! Units that are taken ahead: spent without asking, charged before, and given back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_runtime::__private::{BuiltInStore as _, Health};
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, Key, Limit, Policy, RateLimitError, RateLimiter, RedisMode, RedisStore, Rule,
    Source, Store,
};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::PATIENCE;
use crate::support::asking::health;
use crate::support::proxy::Proxy;
use crate::support::random::Random;
use crate::support::redis::{RedisServer, shared};
use crate::support::{polled, settled, strict, unique, until};

const MAX: u64 = 1_000;
const LEASE: Duration = Duration::from_millis(200);

/// Buckets refill by a unit each 10 seconds.
fn limits() -> [Limit; 1] {
    [Limit::new(MAX, Duration::from_secs(10_000))]
}

async fn store(server: &RedisServer) -> RedisStore {
    let store = server.store();
    store.ready().await.unwrap();
    store
}

/// Stores by one clock.
async fn stores<const N: usize>(clock: &FakeClock) -> [RedisStore; N] {
    let stores = [(); N].map(|()| shared().store().with_clock(clock.clone()));
    for store in &stores {
        store.ready().await.unwrap();
    }
    stores
}

/// Calls until some of the units that were taken ahead are spent; gives how many calls it took, and
/// the last verdict.
async fn spend(store: &RedisStore, request: Request<'_>) -> (u64, Verdict) {
    for call in 1..200 {
        let verdict = store.acquire(request).await.unwrap();
        assert!(verdict.allowed, "{verdict:?}");
        if verdict.cached {
            return (call, verdict);
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is taken ahead");
}

/// How much of the limit is used.
async fn used(store: &RedisStore, request: Request<'_>) -> u64 {
    MAX - store.peek(request).await.unwrap().remaining
}

#[tokio::test]
async fn what_is_left_of_a_lease_is_given_back() {
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let (key, limits) = (unique("ahead"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(LEASE);
        let (calls, verdict) = spend(&store, request).await;
        assert!((8..30).contains(&calls), "{algorithm}: {calls}");
        assert_eq!(verdict.remaining, MAX - calls, "{algorithm}");
        let charged = used(&other, request).await;
        assert!(
            charged > calls && charged <= 3 * calls,
            "{algorithm}: {charged} units are charged for {calls} calls"
        );
        sleep(LEASE + Duration::from_millis(50)).await;
        assert_eq!(used(&other, request).await, calls, "{algorithm}");
    }
}

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

/// Questions that wait to be sent when their key is reset go before the reset.
#[tokio::test]
async fn what_is_taken_ahead_when_a_key_is_reset_is_not_left_on_it() {
    for turns in 0..8 {
        let clock = FakeClock::new();
        let [store, other] = stores(&clock).await.map(Arc::new);
        let (key, limits) = (
            unique("reset"),
            [Limit::new(40_000, Duration::from_secs(3_600))],
        );
        let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
        let request = request.with_prefetch(LEASE);
        let mut last = 0;
        for calls in 0..10_000 {
            let verdict = store.acquire(request).await.unwrap();
            // Within a grant they fall.
            if calls > 5_000 && verdict.cached && verdict.ticket > last {
                break;
            }
            last = verdict.ticket;
        }
        // Others are asked before them.
        let mut crowd = JoinSet::new();
        for n in 0..20 {
            let (store, key) = (Arc::clone(&store), format!("{key}:{n}"));
            crowd.spawn(async move {
                let limits = [Limit::per_hour(9)];
                let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
                store.acquire(request).await.unwrap()
            });
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        assert!(store.reset(request).await.unwrap());
        store.settled().await.unwrap();
        let left = other.peek(request).await.unwrap().remaining;
        assert_eq!(left, 40_000, "after {turns} turns");
        crowd.join_all().await;
    }
}

/// On threads that stand still until the lease is over, callers come before the task that gives
/// back, and find that more is to be taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_lease_is_given_back_where_threads_stand_still() {
    const ROUNDS: u64 = 4;
    let (store, other) = (Arc::new(store(shared()).await), store(shared()).await);
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindow] {
        let (key, own) = (unique("late"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &own).with_prefetch(LEASE);
        let mut calls = 0;
        for _ in 0..ROUNDS {
            calls += spend(&store, request).await.0;
            let mut tasks = JoinSet::new();
            for _ in 0..2 {
                // Longer than a bucket waits for what is given back.
                tasks.spawn(async { std::thread::sleep(LEASE + Duration::from_millis(50)) });
            }
            for _ in 0..32 {
                let (store, key) = (Arc::clone(&store), key.clone());
                tasks.spawn(async move {
                    let limits = limits();
                    let request = Request::new(key.as_bytes(), algorithm, &limits);
                    let called = store.acquire(request.with_prefetch(LEASE)).await;
                    assert!(called.unwrap().allowed, "{algorithm}");
                });
                calls += 1;
            }
            tasks.join_all().await;
        }
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, calls, "{algorithm}");
    }
}

/// What this process holds itself does not refuse its calls.
#[tokio::test]
async fn a_call_that_costs_more_than_is_held_is_admitted_where_it_fits_with_that() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let (key, limits) = (unique("heavy"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (calls, _) = spend(&store, request).await;
        let heavy = request.with_cost(MAX - calls);
        assert!(used(&other, request).await > calls, "{algorithm}");
        let admitted = store.acquire(heavy).await.unwrap();
        assert!(admitted.allowed, "{algorithm}: {admitted:?}");
        assert_eq!(admitted.remaining, 0, "{algorithm}");
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, MAX, "{algorithm}");
    }
}

/// Nor what it is giving back: to a call, to calls side by side, to a stack.
#[tokio::test]
async fn what_is_being_given_back_refuses_no_call_of_this_process() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        for shape in ["alone", "abreast", "stack"] {
            let (store, limits) = (store(shared()).await, limits());
            let (key, other) = (unique(shape), unique("other"));
            let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
            let (calls, _) = spend(&store, request).await;
            let heavy = request.with_cost(MAX - calls);
            match shape {
                "alone" => {
                    store.give_back();
                    let admitted = store.acquire(heavy).await.unwrap();
                    assert!(admitted.allowed, "{algorithm}: {admitted:?}");
                }
                "abreast" => {
                    let halves = [request.with_cost((MAX - calls) / 2); 2];
                    let [one, two] = halves.map(|half| store.acquire(half));
                    let (one, two) = tokio::join!(one, two);
                    let (one, two) = (one.unwrap(), two.unwrap());
                    assert!(one.allowed && two.allowed, "{algorithm}: {one:?} {two:?}");
                }
                _ => {
                    let other = Request::new(other.as_bytes(), algorithm, &limits);
                    let stack = [heavy, other];
                    let verdict = store.acquire_all(None, &stack).await.unwrap();
                    assert!(verdict.is_acquired(), "{algorithm}: {verdict:?}");
                }
            }
            store.settled().await.unwrap();
            let most = used(&store, request).await;
            assert!(
                (MAX - 1..=MAX).contains(&most),
                "{algorithm}, {shape}: {most}"
            );
        }
    }
}

/// Others go on spending what would not help.
#[tokio::test]
async fn a_stack_that_another_rule_refuses_gives_nothing_back() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let (store, limits) = (store(shared()).await, limits());
        let (key, other) = (unique("ahead"), unique("used up"));
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (calls, _) = spend(&store, request).await;
        let used_up = Request::new(other.as_bytes(), algorithm, &limits).with_cost(MAX);
        assert!(store.acquire(used_up).await.unwrap().allowed);
        for cost in [1, MAX - calls] {
            let stack = [request.with_cost(cost), used_up];
            let refused = store.acquire_all(None, &stack).await.unwrap();
            assert!(!refused.is_acquired(), "{algorithm}: {refused:?}");
        }
        assert!(store.acquire(request).await.unwrap().cached, "{algorithm}");
    }
}

/// The server has refused: that is told, and not what the policy for outages says.
#[tokio::test]
async fn a_refusal_stands_where_there_is_no_time_to_give_back() {
    let proxy = Proxy::start(shared().port()).await;
    let url = format!("redis://{}/", proxy.address());
    let store = RedisStore::new(&url).unwrap().deny_cache(false);
    let builder = RateLimiter::builder().store(store);
    let limiter = builder.timeout(Duration::from_millis(300)).build().unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::named(unique("distant"), limits()[0]);
    let rule = rule.with_prefetch(Duration::from_secs(10));
    let key = Key::global();
    let calls = spend_by(&limiter, &rule, &key).await;
    proxy.delay(Duration::from_millis(60));
    // Some are held, and would be enough.
    let heavy = rule.with_cost(MAX - calls - 2);
    let refused = limiter.acquire(&heavy, &key).await.unwrap_err();
    assert!(
        matches!(refused, RateLimitError::Exceeded(_)),
        "{refused:?}"
    );
}

#[tokio::test]
async fn settled_gives_back_what_is_left_at_once() {
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let (key, limits) = (unique("settled"), limits());
        let lease = Duration::from_secs(10);
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (calls, _) = spend(&store, request).await;
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, calls, "{algorithm}");
    }
}

#[tokio::test]
async fn a_change_of_the_key_by_hand_voids_what_was_taken_ahead() {
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(shared()).await, store(shared()).await);
        let limits = limits();
        let lease = Duration::from_secs(10);
        for change in ["reset", "refund", "block", "unblock"] {
            let key = unique(change);
            let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
            let (calls, verdict) = spend(&store, request).await;
            let stay = match change {
                "reset" => {
                    assert!(store.reset(request).await.unwrap());
                    0
                }
                "refund" => {
                    assert!(store.refund(request, verdict.ticket).await.unwrap());
                    calls - 1
                }
                "block" => {
                    store.block(request, PATIENCE).await.unwrap();
                    let refused = store.acquire(request).await.unwrap();
                    assert!(refused.blocked, "{algorithm}: {refused:?}");
                    assert!(store.unblock(request).await.unwrap());
                    calls
                }
                _ => {
                    assert!(!store.unblock(request).await.unwrap());
                    calls
                }
            };
            store.settled().await.unwrap();
            assert_eq!(used(&other, request).await, stay, "{algorithm}: {change}");
            let next = store.acquire(request).await.unwrap();
            assert!(next.allowed && !next.cached, "{algorithm}: {change}");
        }
    }
}

#[tokio::test]
async fn a_new_connection_voids_what_was_taken_ahead_and_nothing_is_given_back() {
    let server = RedisServer::start();
    for &algorithm in Algorithm::ALL {
        let (store, other) = (store(&server).await, store(&server).await);
        let (key, limits) = (unique("lost"), limits());
        let lease = Duration::from_secs(10);
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let _ = spend(&store, request).await;
        let before = used(&other, request).await;
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        // Units are spent until a call asks, and there is a new connection.
        while store.peek(request).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        let asked = store.acquire(request).await.unwrap();
        assert!(asked.allowed && !asked.cached, "{algorithm}");
        store.settled().await.unwrap();
        assert!(used(&other, request).await > before, "{algorithm}");
    }
}

/// Whatever it is that has not what was taken ahead: a replica that lagged, a server without data.
#[tokio::test]
async fn what_is_left_when_a_connection_has_ended_is_not_given_back_on_the_next_one() {
    let (server, next) = (RedisServer::start(), RedisServer::start());
    for &algorithm in Algorithm::ALL {
        let proxy = Proxy::start(server.port()).await;
        let (store, other) = (proxy.store(), store(&next).await);
        store.answers_within(PATIENCE);
        store.ready().await.unwrap();
        let (key, limits) = (unique("left"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(LEASE);
        for _ in 0..100 {
            let plain = request.with_prefetch(Duration::ZERO);
            assert!(other.acquire(plain).await.unwrap().allowed, "{algorithm}");
        }
        let _ = spend(&store, request).await;
        proxy.lead_to(next.port());
        // The lease ends while the store connects.
        proxy.delay(LEASE);
        proxy.reset_all();
        while store.peek(request).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        store.settled().await.unwrap();
        assert_eq!(used(&other, request).await, 100, "{algorithm}");
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

/// Calls until some of the units that were taken ahead are spent; gives how many calls it took.
async fn spend_by(limiter: &RateLimiter, rule: &Rule, key: &Key) -> u64 {
    for call in 1..200 {
        let admitted = limiter.acquire(rule, key).await.unwrap();
        if admitted.source() == Source::Grant {
            return call;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is taken ahead");
}

#[tokio::test]
async fn a_rule_with_prefetch_admits_by_grants_which_new_policies_give_back() {
    let limiter = strict().redis(&shared().url()).build().unwrap();
    limiter.ready().await.unwrap();
    let limit = limits()[0];
    let rule = Rule::named(unique("ahead"), limit).with_prefetch(Duration::from_secs(10));
    let (key, plain) = (Key::global(), rule.clone().with_prefetch(Duration::ZERO));
    let calls = spend_by(&limiter, &rule, &key).await;
    let used = async || MAX - limiter.peek(&plain, &key).await.unwrap().remaining();
    assert!(used().await > calls);
    let admitted = limiter.acquire(&rule, &key).await.unwrap();
    assert_eq!(
        (admitted.source(), admitted.is_degraded()),
        (Source::Grant, false)
    );
    assert_eq!(admitted.remaining(), MAX - calls - 1);
    let policies = [("another", Policy::new(limit))];
    limiter.set_policies(policies).unwrap();
    settled(&limiter).await;
    assert_eq!(used().await, calls + 1);
    // A charge that was spent from memory is given back as any other.
    spend_by(&limiter, &rule, &key).await;
    let admitted = limiter.acquire(&rule, &key).await.unwrap();
    assert_eq!(admitted.source(), Source::Grant);
    let before = used().await;
    assert!(limiter.refund(&rule, &key, &admitted).await.unwrap());
    settled(&limiter).await;
    assert!(used().await < before);
}

#[tokio::test]
async fn a_rule_with_prefetch_is_decided_call_by_call_without_scripts() {
    let store = shared().store().mode(RedisMode::Transactions);
    let limiter = strict().store(store).build().unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::named(unique("plain"), limits()[0]).with_prefetch(LEASE);
    for call in 1..30 {
        let admitted = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert_eq!(
            (admitted.source(), admitted.remaining()),
            (Source::Store, MAX - call)
        );
    }
}

/// A question that takes ahead waits as long as its connection lives; callers do not.
#[tokio::test]
async fn callers_do_not_wait_for_units_that_a_slow_server_was_asked_for() {
    const TIMEOUT: Duration = Duration::from_millis(100);
    let server = RedisServer::start();
    let limiter = RateLimiter::builder()
        .redis(&server.url())
        .timeout(TIMEOUT)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::named(unique("slow"), limits()[0]).with_prefetch(Duration::from_secs(10));
    let key = Key::global();
    spend_by(&limiter, &rule, &key).await;
    server.freeze();
    let since = Instant::now();
    let mut degraded = 0;
    // What is held is spent; then two timeouts tell that the server is slow.
    while degraded < 40 {
        let admitted = limiter.acquire(&rule, &key).await.unwrap();
        degraded += u32::from(admitted.is_degraded());
    }
    let took = since.elapsed();
    let settled = limiter.settled_within(TIMEOUT).await;
    server.thaw();
    assert!(took < 10 * TIMEOUT, "{took:?} for 40 calls");
    let Err(RateLimitError::Unavailable(why)) = settled else {
        panic!("{settled:?}");
    };
    assert!(why.message().contains("units taken ahead"), "{why}");
}

/// A runtime that nobody drives reads no reply.
#[tokio::test]
async fn callers_do_not_wait_for_units_that_a_sleeping_runtime_has_asked_for() {
    let (store, key, limits) = (store(shared()).await, unique("asleep"), limits());
    let lease = Duration::from_secs(10);
    let request = Request::new(key.as_bytes(), Algorithm::TokenBucket, &limits);
    let request = request.with_prefetch(lease);
    assert!(store.acquire(request).await.unwrap().allowed);
    let asleep = std::thread::scope(|scope| {
        let asks = || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(store.ready()).unwrap();
            runtime.block_on(async {
                for _ in 0..40 {
                    let _ = polled(store.acquire(request), 0).await;
                }
            });
            runtime
        };
        scope.spawn(asks).join().unwrap()
    });
    for _ in 0..3 {
        let answered = timeout(PATIENCE, store.acquire(request)).await;
        assert!(answered.unwrap().unwrap().allowed);
    }
    asleep.shutdown_background();
}

#[tokio::test]
async fn what_was_taken_ahead_before_a_reset_by_another_store_is_not_taken_from_what_it_has_since()
{
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let clock = FakeClock::new();
        let [first, other] = stores(&clock).await;
        let (key, limits) = (unique("reset"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let _ = spend(&first, request).await;
        assert!(other.reset(request).await.unwrap());
        clock.advance(Duration::from_millis(2));
        // More than the first store has taken.
        for _ in 0..40 {
            let _ = spend(&other, request).await;
        }
        let before = used(&other, request).await;
        first.settled().await.unwrap();
        assert_eq!(used(&other, request).await, before, "{algorithm}");
    }
}

/// Processes end one after another, as where each is replaced by a new release, and one goes on.
#[tokio::test]
async fn lost_units_of_a_bucket_drain_also_while_another_store_takes_ahead() {
    let (lease, limits) = (
        Duration::from_secs(10),
        [Limit::new(MAX, Duration::from_secs(500))],
    );
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let clock = FakeClock::new();
        let [busy, other] = stores(&clock).await;
        let key = unique("ended");
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let ended: [_; 5] = stores(&clock).await;
        for store in &ended {
            let _ = spend(store, request).await;
        }
        // Half of what drains, and never a pause of a lease.
        for _ in 0..1_000 {
            assert!(busy.acquire(request).await.unwrap().allowed, "{algorithm}");
            tokio::task::yield_now().await;
            clock.advance(lease / 10);
        }
        busy.settled().await.unwrap();
        let used = used(&other, request).await;
        assert!(used < 20, "{algorithm}: {used} units are used");
    }
}

/// A process that stood still gives back late, and other units were taken ahead meanwhile.
#[tokio::test]
async fn what_is_left_is_given_back_also_where_another_store_took_ahead_after_the_lease() {
    let lease = Duration::from_secs(10);
    for &algorithm in Algorithm::ALL {
        let clock = FakeClock::new();
        let [first, other] = stores(&clock).await;
        let (key, limits) = (unique("late"), limits());
        let request = Request::new(key.as_bytes(), algorithm, &limits).with_prefetch(lease);
        let (mut spent, _) = spend(&first, request).await;
        for _ in 0..3 {
            clock.advance(lease + Duration::from_millis(30));
            spent += spend(&other, request).await.0;
            other.settled().await.unwrap();
        }
        clock.advance(lease);
        spent += spend(&other, request).await.0;
        first.settled().await.unwrap();
        other.settled().await.unwrap();
        let used = used(&other, request).await;
        // A unit of a bucket drains in 10 seconds.
        let drained = if algorithm.has_burst() { 5 } else { 0 };
        assert!(
            (spent - drained..=spent).contains(&used),
            "{algorithm}: {spent} units were spent, and {used} are used"
        );
    }
}

/// Of one that refuses writes, all calls are answered without it.
#[tokio::test]
async fn a_server_that_does_not_serve_is_not_asked_for_units() {
    let server = RedisServer::start_without_disk();
    let store = store(&server).await;
    let limits = limits();
    let request = Request::new(b"slow", Algorithm::TokenBucket, &limits).with_prefetch(LEASE);
    let _ = spend(&store, request).await;
    server.fail_to_save();
    until("it is noticed", PATIENCE, async || {
        let _ = store.acquire(request).await;
        health(&store) != Health::Up
    })
    .await;
    sleep(2 * LEASE).await;
    let asked = || server.info("commandstats", "cmdstat_evalsha");
    let before = asked();
    for _ in 0..100 {
        // Those without a timeout would be sent.
        let request = request.with_timeout_at(Instant::now() + PATIENCE);
        assert!(store.acquire(request).await.is_err());
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(asked(), before);
}

//! What the algorithms promise: the bounds that are not exact are never passed, and every wait is
//! exact to the microsecond, whatever the arrivals.
//!
//! An interval is half-open, `(t − window, t]`, unless a test says closed: `[t − window, t]`, whose
//! both ends count.

use std::collections::VecDeque;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ratelimit_conformance::Reference;
use ratelimit_runtime::store::{Answer, Request, Store as _, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore};

const ALGORITHMS: &[Algorithm] = ratelimit_conformance::ALGORITHMS;

/// One key in memory, its clock, and what it admitted.
struct Key {
    store: MemoryStore,
    clock: FakeClock,
    algorithm: Algorithm,
    limits: Vec<Limit>,
    admitted: Vec<(u64, u64)>,
}

impl Key {
    fn new(algorithm: Algorithm, limits: &[Limit]) -> Self {
        let clock = FakeClock::new();
        let store = MemoryStore::new().with_clock(clock.clone());
        Self {
            store,
            clock,
            algorithm,
            limits: limits.to_vec(),
            admitted: Vec::new(),
        }
    }

    fn request(&self, cost: u64) -> Request<'_> {
        Request::new(b"key", self.algorithm, &self.limits).with_cost(cost)
    }

    fn acquire(&mut self, cost: u64) -> Verdict {
        let verdict = at_once(self.store.acquire(self.request(cost)));
        if verdict.allowed {
            self.admitted.push((self.now(), cost));
        }
        verdict
    }

    fn peek(&self, cost: u64) -> Verdict {
        at_once(self.store.peek(self.request(cost)))
    }

    /// Calls of cost 1 until one is refused; says how many passed.
    fn drain(&mut self) -> u64 {
        let mut passed = 0;
        while self.acquire(1).allowed {
            passed += 1;
        }
        passed
    }

    fn advance(&self, micros: u64) {
        self.clock.advance(Duration::from_micros(micros));
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap()
    }

    /// The most that any interval of one window holds: half-open, and closed.
    fn busiest(&self) -> (u64, u64) {
        let window = self.limits.first().unwrap().window();
        let window = u64::try_from(window.as_micros()).unwrap();
        let most = |counts: &dyn Fn(u64, u64) -> bool| {
            let ending = |&(end, _): &(u64, u64)| {
                let inside = self
                    .admitted
                    .iter()
                    .filter(|(at, _)| *at <= end && counts(*at, end));
                inside.map(|(_, cost)| cost).sum::<u64>()
            };
            self.admitted.iter().map(ending).max().unwrap_or(0)
        };
        (
            most(&|at, end| end < at + window),
            most(&|at, end| end <= at + window),
        )
    }
}

/// The answer of a store that never waits.
fn at_once<T: Unpin>(answer: Answer<'_, T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("a store in memory answers at once"),
    }
}

/// One call: how long after the one before, and of which cost.
type Call = (u64, u64);

fn small_limit() -> impl Strategy<Value = Limit> {
    let window = select(vec![1_000_u64, 1_009, 7_777, 10_000]);
    (1..12_u64, window, prop::option::of(1..20_u64)).prop_map(|(max, window, burst)| {
        let limit = Limit::new(max, Duration::from_micros(window));
        burst.map_or(limit, |burst| limit.with_burst(burst))
    })
}

/// Limits whose rates do not divide, and counts up to the largest.
fn any_limit() -> impl Strategy<Value = Limit> {
    let max = prop_oneof![
        4 => 1..15_u64,
        1 => select(vec![999_983_u64, 1 << 31, (1 << 51) + 1, Limit::MAX_COUNT - 1, Limit::MAX_COUNT]),
    ];
    let window = prop_oneof![
        1_000..100_000_u64,
        select(vec![
            7_777_777_u64,
            60_000_000,
            86_400_000_000,
            366 * 86_400_000_000
        ]),
    ];
    let burst = prop_oneof![3 => Just(None), 2 => (1..30_u64).prop_map(Some), 1 => Just(Some(Limit::MAX_COUNT))];
    (max, window, burst).prop_map(|(max, window, burst)| {
        let limit = Limit::new(max, Duration::from_micros(window));
        burst.map_or(limit, |burst| limit.with_burst(burst))
    })
}

/// The moments at which something changes are tried often.
fn calls(length: usize) -> impl Strategy<Value = Vec<Call>> {
    let after = prop_oneof![
        4 => 0..2_500_u64,
        2 => Just(0_u64),
        2 => select(vec![1_u64, 999, 1_000, 1_008, 1_009, 7_776, 7_777, 9_999, 10_000, 10_001]),
    ];
    vec(
        (after, prop_oneof![3 => Just(1_u64), 1 => 1..8_u64]),
        1..length,
    )
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

fn capacity(algorithm: Algorithm, limit: Limit) -> u64 {
    if algorithm.has_burst() {
        limit.capacity()
    } else {
        limit.max()
    }
}

/// What one call may weigh: at most 1,000 in a log.
fn heaviest(algorithm: Algorithm, limit: Limit) -> u64 {
    let heaviest = if algorithm == Algorithm::SlidingWindow {
        1_000
    } else {
        u64::MAX
    };
    capacity(algorithm, limit).min(heaviest)
}

proptest! {
    #![proptest_config(config(400))]

    /// With calls that reserve, and commit or release later or never: no interval holds more than
    /// the guide says.
    #[test]
    fn no_interval_admits_more_than_its_bound_whatever_is_reserved(
        limit in small_limit(),
        calls in calls(150),
        fates in vec((any::<bool>(), prop::option::of(prop::bool::weighted(0.7))), 150),
    ) {
        for &algorithm in ALGORITHMS {
            let mut key = Key::new(algorithm, &[limit]);
            // Index in `admitted`, ticket, cost.
            let mut open = VecDeque::new();
            for (&(after, cost), &(reserves, settles)) in calls.iter().zip(&fates) {
                key.advance(after);
                let cost = cost.min(capacity(algorithm, limit));
                if reserves {
                    let verdict = at_once(key.store.acquire(key.request(cost).reserving()));
                    if verdict.allowed {
                        open.push_back((key.admitted.len(), verdict.ticket, cost));
                        key.admitted.push((key.now(), cost));
                    }
                } else {
                    let _ = key.acquire(cost);
                }
                let Some(commits) = settles else { continue };
                let Some((index, ticket, cost)) = open.pop_front() else { continue };
                let settled = at_once(key.store.settle(key.request(cost).reserving(), ticket, if commits { cost } else { 0 }));
                if settled.was_open && !commits {
                    key.admitted[index].1 = 0;
                }
            }
            let (half_open, _) = key.busiest();
            let (most, most_closed) = Reference::new(algorithm).bounds(limit);
            // Of counters it is one less if nothing is given back; a released reservation is.
            let gives_back = matches!(algorithm, Algorithm::SlidingCounter | Algorithm::FixedWindow);
            let most = if gives_back { most_closed } else { most };
            prop_assert!(half_open <= most, "{:?}: {} in an interval, at most {}", algorithm, half_open, most);
        }
    }

    #[test]
    fn no_interval_admits_more_than_its_bound(limit in small_limit(), calls in calls(150), eager in any::<bool>()) {
        for &algorithm in ALGORITHMS {
            let mut key = Key::new(algorithm, &[limit]);
            for &(after, cost) in &calls {
                key.advance(after);
                let verdict = key.acquire(cost.min(capacity(algorithm, limit)));
                if eager && !verdict.allowed {
                    key.advance(verdict.retry_after_us);
                    key.drain();
                }
            }
            let ((half_open, closed), (most, most_closed)) = (key.busiest(), Reference::new(algorithm).bounds(limit));
            prop_assert!(half_open <= most, "{:?}: {} in a half-open interval, at most {}", algorithm, half_open, most);
            prop_assert!(closed <= most_closed, "{:?}: {} in a closed one, at most {}", algorithm, closed, most_closed);
        }
    }

    /// Refused a microsecond before the moment that a refusal names, admitted at it: under any
    /// limits, of any cost.
    #[test]
    fn retry_after_is_exact(limits in vec(any_limit(), 1..4), calls in calls(40), heavy in any::<bool>()) {
        for &algorithm in ALGORITHMS {
            let mut key = Key::new(algorithm, &limits);
            let least = limits.iter().map(|limit| heaviest(algorithm, *limit)).min().unwrap();
            for &(after, cost) in &calls {
                key.advance(after);
                let cost = if heavy { (least / cost).max(1) } else { cost.min(least) };
                let refused = key.acquire(cost);
                if refused.allowed {
                    continue;
                }
                prop_assert!(refused.retry_after_us > 0);
                key.advance(refused.retry_after_us - 1);
                let early = key.peek(cost);
                prop_assert_eq!((early.allowed, early.retry_after_us), (false, 1), "{:?}: {:?}", algorithm, refused);
                key.advance(1);
                prop_assert!(key.acquire(cost).allowed, "{:?}: {:?}", algorithm, refused);
            }
        }
    }
}

/// A rate that does not divide loses nothing: after any number of windows, exactly as much as was
/// due has come.
#[test]
fn rates_that_do_not_divide_lose_nothing() {
    for &algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.has_burst()) {
        // A caller who is late by a fraction of a microsecond each time loses that fraction where
        // the bucket of one is full: the last comes at 70,000 waits of ⌈window / max⌉. With room
        // for two, nothing is lost.
        for (burst, took) in [
            (1, 70_000 * 1_000_003_u64.div_ceil(7)),
            (2, 10_000 * 1_000_003),
        ] {
            let mut key = Key::new(
                algorithm,
                &[Limit::new(7, Duration::from_micros(1_000_003)).with_burst(burst)],
            );
            let start = key.now();
            let mut admitted = 0;
            while admitted < 70_000 + burst {
                let verdict = key.acquire(1);
                if verdict.allowed {
                    admitted += 1;
                } else {
                    key.advance(verdict.retry_after_us);
                }
            }
            assert_eq!(key.now() - start, took, "{algorithm:?}");
        }
    }
}

/// A bucket that would take longer than 366 days to fill is as large as one that does not; times
/// stay within what Redis counts exactly.
#[test]
fn a_burst_is_no_larger_than_what_a_year_fills() {
    let year = Limit::MAX_WINDOW;
    assert_eq!(
        Limit::per_day(2).with_burst(Limit::MAX_COUNT).capacity(),
        2 * 366
    );
    assert_eq!(Limit::per_day(2).with_burst(731).capacity(), 731);
    assert_eq!(Limit::new(5, year).with_burst(6).capacity(), 5);
    assert_eq!(
        Limit::new(Limit::MAX_COUNT, year).capacity(),
        Limit::MAX_COUNT
    );
    for &algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.has_burst()) {
        let limits = [Limit::per_minute(1).with_burst(Limit::MAX_COUNT)];
        let mut key = Key::new(algorithm, &limits);
        assert!(key.request(1).horizon() <= year);
        let all = limits.first().unwrap().capacity();
        assert!(key.acquire(all).allowed);
        assert_eq!(
            key.acquire(all).retry_after_us,
            u64::try_from(year.as_micros()).unwrap(),
            "{algorithm:?}"
        );
    }
}

#[test]
fn a_level_in_coarse_ticks_loses_nothing_by_frequent_writes_or_another_max() {
    let (small, large) = (
        Limit::new(1, Duration::from_secs(86_400)),
        Limit::new(1_000_000, Duration::from_secs(86_400)),
    );
    let mut key = Key::new(Algorithm::TokenBucket, &[large]);
    let spent = at_once(key.store.acquire(key.request(1_000_000)));
    assert_eq!(spent.remaining, 0);
    let reset = |key: &Key| key.peek(1).reset_after_us;
    let whole = reset(&key);
    for _ in 0..2_000 {
        key.advance(43_200);
        assert_eq!(
            key.acquire(1).remaining,
            0,
            "half a token drains between two calls"
        );
        key.advance(43_200);
    }
    assert!(
        reset(&key) >= whole - 2_000 * 86_400 / 2 && reset(&key) <= whole + 32,
        "{}",
        reset(&key)
    );
    key.limits = vec![small];
    assert!(!key.peek(1).allowed);

    let mut raised = Key::new(Algorithm::TokenBucket, &[small]);
    assert!(raised.acquire(1).allowed);
    raised.limits = vec![Limit::per_day(Limit::MAX_COUNT)];
    assert!(
        raised.acquire(Limit::MAX_COUNT / 2).allowed && !raised.acquire(Limit::MAX_COUNT).allowed
    );
}

/// By the lower rate alone it would take longer than a number can say.
#[test]
fn a_level_whose_max_falls_to_one_is_refused_until_it_has_drained_by_the_old_rate() {
    let window = Duration::from_micros(1 << 44);
    let mut key = Key::new(Algorithm::TokenBucket, &[Limit::new(1 << 51, window)]);
    assert!(key.acquire(1 << 51).allowed);
    key.limits = vec![Limit::new(1, window)];
    let refused = key.acquire(1);
    let until = 1..=1 << 44;
    assert!(
        !refused.allowed && until.contains(&refused.retry_after_us),
        "{refused:?}"
    );
}

#[test]
fn an_actual_cost_in_a_sliding_window_counts_up_to_a_thousand_and_once() {
    let key = Key::new(Algorithm::SlidingWindow, &[Limit::per_minute(3_000)]);
    let request = key.request(10).reserving_estimate();
    let ticket = at_once(key.store.acquire(request)).ticket;
    let settled = at_once(key.store.settle(request, ticket, 2_500));
    assert_eq!(
        (settled.was_open, settled.dropped, key.peek(1).remaining),
        (true, 1_500, 2_000)
    );
    assert!(!at_once(key.store.settle(request, ticket, 2_500)).was_open);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Charge(u64),
    /// Of the charge with this number.
    Refund(usize),
    Pass(u64),
}

/// Where nothing was written since, all of it; else the cost less what has drained since. Of six a
/// minute: what is left after the steps, and for how long it is less than all.
#[test]
fn a_refund_of_a_bucket_gives_back_no_more_than_if_the_call_had_not_come() {
    use Step::{Charge, Pass, Refund};
    let token = 10_000_000;
    let table: [(&[Step], u64, u64); 7] = [
        (&[Charge(3), Refund(0)], 6, 0),
        // What has drained since need not be given back.
        (&[Charge(1), Charge(3), Pass(token), Refund(1)], 6, 0),
        (
            &[Charge(3), Charge(3), Pass(token / 2), Refund(1)],
            3,
            3 * token - token / 2,
        ),
        // A later charge: two of the three, and of the four, have drained meanwhile.
        (
            &[Charge(3), Pass(token), Charge(1), Pass(token), Refund(0)],
            5,
            token,
        ),
        (
            &[Charge(4), Pass(token), Charge(2), Pass(token), Refund(0)],
            4,
            2 * token,
        ),
        // All of them have.
        (
            &[Charge(2), Pass(token), Charge(5), Pass(token), Refund(0)],
            1,
            5 * token,
        ),
        // A refund is a write as well.
        (
            &[
                Charge(1),
                Charge(1),
                Charge(3),
                Pass(token),
                Refund(0),
                Refund(1),
            ],
            3,
            3 * token,
        ),
    ];
    for &algorithm in ALGORITHMS.iter().filter(|algorithm| algorithm.has_burst()) {
        for (steps, left, reset_after) in table {
            let mut key = Key::new(algorithm, &[Limit::per_minute(6)]);
            let mut charges = Vec::new();
            for step in steps {
                match *step {
                    Pass(micros) => key.advance(micros),
                    Charge(cost) => charges.push((cost, key.acquire(cost).ticket)),
                    Refund(which) => {
                        let (cost, ticket) = charges[which];
                        at_once(key.store.refund(key.request(cost), ticket));
                    }
                }
            }
            let seen = key.peek(1);
            assert_eq!(
                (seen.remaining, seen.reset_after_us),
                (left, reset_after),
                "{algorithm}: {steps:?}"
            );
        }
    }
}

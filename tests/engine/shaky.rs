//! A layer whose looks and charges fail now and then, each by itself: whatever of a stack fails, it
//! is charged as a whole or not at all, to the store and to the memory for outages.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, Decision, Key, Limit, MemoryStore, Permit, RateLimiter, Reservation, Rule, Source,
    Store,
};

use crate::support::layer::forward;
use crate::support::random::{Random, seed};
use crate::support::settled;

const MAX: u64 = 4;
const KEYS: u64 = 2;
/// One in so many questions fails; 0 for none, 1 for all.
type OneIn = Arc<AtomicU64>;

#[derive(Clone)]
struct Shaky {
    inner: Arc<MemoryStore>,
    one_in: OneIn,
    random: Arc<std::sync::Mutex<Random>>,
}

impl Shaky {
    fn asked<'a>(&self, answer: impl FnOnce() -> Answer<'a, Verdict>) -> Answer<'a, Verdict> {
        let mut random = self.random.lock().unwrap();
        let one_in = self.one_in.load(Ordering::Relaxed);
        if one_in > 0 && random.below(one_in) == 0 {
            let kinds = [
                StoreErrorKind::Unavailable,
                StoreErrorKind::TimedOut,
                StoreErrorKind::Full,
            ];
            let error = StoreError::new(random.of(&kinds), "a test made it fail");
            return Answer::ready(Err(error));
        }
        answer()
    }
}

impl Store for Shaky {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.asked(|| self.inner.acquire(request))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.asked(|| self.inner.peek(request))
    }

    forward!(inner: reset);
}

/// Windows in which nothing leaves or drains during a test.
fn rules() -> Vec<Rule> {
    let limit = Limit::new(MAX, Limit::MAX_WINDOW);
    let rule = |name: &'static str, algorithm| Rule::new(name, limit).with_algorithm(algorithm);
    vec![
        rule("log", Algorithm::SlidingWindow),
        rule("bucket", Algorithm::TokenBucket),
        rule("window", Algorithm::FixedWindow),
        rule("counter", Algorithm::SlidingCounter),
        rule("seen", Algorithm::SlidingWindow).with_shadow(true),
        rule("open", Algorithm::SlidingWindow).with_concurrent(2),
    ]
}

/// The rule and the key, and whether the memory for outages has it.
type Place = (usize, u64, bool);
type Call = (usize, u64, u64);

#[derive(Default)]
struct Model(HashMap<Place, u64>);

impl Model {
    fn charged(&mut self, calls: &[Call], decisions: &[Decision]) {
        assert_eq!(calls.len(), decisions.len());
        for (&(rule, key, cost), decision) in calls.iter().zip(decisions) {
            if decision.is_allowed() {
                assert_ne!(decision.source(), Source::Nobody);
                let place = (rule, key, decision.source() == Source::Fallback);
                *self.0.entry(place).or_default() += cost;
            }
        }
    }

    fn settled(&mut self, calls: &[Call], decisions: &[Decision], actual: u64) {
        for (&(rule, key, cost), decision) in calls.iter().zip(decisions) {
            if decision.is_allowed() {
                let place = (rule, key, decision.source() == Source::Fallback);
                let used = self.0.get_mut(&place).unwrap();
                *used = (*used - cost + actual).min(2 * MAX);
            }
        }
    }
}

async fn play(random: Random) {
    let mut random = random;
    let store = Shaky {
        inner: Arc::new(MemoryStore::new().with_clock(FakeClock::new())),
        one_in: Arc::default(),
        random: Arc::new(std::sync::Mutex::new(random.fork())),
    };
    // No answer is late.
    let limiter = RateLimiter::builder().timeout(Duration::from_secs(60));
    let limiter = limiter.store(store.clone()).build().unwrap();
    let (rules, mut model) = (rules(), Model::default());
    let mut reservations: Vec<(Vec<Call>, Reservation)> = Vec::new();
    let mut permits: Vec<(u64, Permit)> = Vec::new();
    for _ in 0..40 {
        let which = random.below(7);
        let mut calls: Vec<Call> = (0..=random.below(3))
            .map(|_| {
                let rule = usize::try_from(random.below(5)).unwrap();
                (rule, random.below(KEYS), 1 + random.below(2))
            })
            .collect();
        if which == 6 {
            calls[0].0 = 5;
        }
        let stack: Vec<(Rule, Key)> = calls
            .iter()
            .map(|&(rule, key, cost)| (rules[rule].with_cost(cost), Key::of(&key)))
            .collect();
        let stack = || stack.iter().map(|(rule, key)| (rule, key));
        store.one_in.store(random.of(&[0, 2, 4]), Ordering::Relaxed);
        match which {
            0..=2 => {
                if let Ok(decisions) = limiter.acquire_all(stack()).await {
                    model.charged(&calls, &decisions);
                }
            }
            3 => {
                if let Ok(reservation) = limiter.reserve_all(stack()).await {
                    model.charged(&calls, reservation.decisions());
                    reservations.push((calls.clone(), reservation));
                }
            }
            4 if !reservations.is_empty() => {
                let (calls, reservation) = reservations.swap_remove(0);
                let actual = random.below(4);
                model.settled(&calls, reservation.decisions(), actual);
                reservation.commit(actual);
            }
            5 if !permits.is_empty() => drop(permits.swap_remove(0)),
            6 => {
                if let Ok(permit) = limiter.enter_all(stack()).await {
                    model.charged(&calls, permit.decisions());
                    let entered = calls.iter().filter(|(rule, ..)| *rule == 5);
                    assert_eq!(entered.count(), 1);
                    permits.push((calls[0].1, permit));
                }
            }
            _ => {}
        }
        settled(&limiter).await;
        for (rule, key) in (0..rules.len()).flat_map(|rule| (0..KEYS).map(move |key| (rule, key))) {
            let of = Key::of(&key);
            for is_fallback in [false, true] {
                store.one_in.store(is_fallback.into(), Ordering::Relaxed);
                let peeked = limiter.peek(&rules[rule], &of).await.unwrap();
                let used = model.0.get(&(rule, key, is_fallback)).copied();
                let left = MAX.saturating_sub(used.unwrap_or_default());
                if !peeked.is_in_flight_limit() {
                    assert_eq!(
                        peeked.remaining(),
                        left,
                        "{} {key} {is_fallback} after {which} {calls:?}: {peeked:?}",
                        rules[rule].name()
                    );
                }
            }
            if rule == 5 {
                let open = permits.iter().filter(|(of, _)| *of == key).count();
                let in_flight = limiter.in_flight(&rules[5], &of).await.unwrap();
                assert_eq!(in_flight, open as u64);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_whose_questions_fail_is_charged_as_a_whole_or_not_at_all() {
    let rounds = std::env::var("RATELIMIT_TEST_CASES").ok();
    let rounds = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(40);
    let mut random = Random::new(seed());
    for _ in 0..rounds {
        play(random.fork()).await;
    }
}

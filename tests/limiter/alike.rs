//! A limiter tells the same whatever keeps its limits: random calls by hand, lone and in stacks,
//! with reservations, permits and policies that change, in memory, through a layer, which decides
//! stacks in several steps, on one server, and on a cluster of two nodes.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::{
    Decision, Limit, Override, Permit, Policy, RateLimitError, RedisStore, Reservation, Rule,
};

use super::*;
use crate::support::deployment::Deployment;
use crate::support::layer::Layer;
use crate::support::settled;

const RULES: usize = 11;
const KEYS: usize = 2;
/// The rules that limit calls in flight, from here on.
const IN_FLIGHT: usize = 9;
/// The rule whose limits a policy gives.
const BY_POLICY: usize = 6;
const HOUR: Duration = Duration::from_secs(3_600);

fn rules() -> Vec<Rule> {
    let minute = Limit::per_minute;
    let secs = |max, secs| Limit::new(max, Duration::from_secs(secs));
    let block = Duration::from_secs;
    vec![
        Rule::new("log", minute(3)),
        Rule::new("logs", secs(5, 10))
            .and(minute(8))
            .with_block(block(20)),
        Rule::new("bucket", minute(4).with_burst(6)).with_algorithm(Algorithm::TokenBucket),
        Rule::new("window", minute(4))
            .with_algorithm(Algorithm::FixedWindow)
            .with_growing_block(block(30), block(300)),
        Rule::new("counter", minute(5)).with_algorithm(Algorithm::SlidingCounter),
        Rule::new("leaky", secs(3, 30))
            .with_algorithm(Algorithm::LeakyBucket)
            .with_block(block(15)),
        Rule::new("plan", minute(1)).with_policy("plan"),
        Rule::new("seen", secs(2, 20)).with_shadow(true),
        Rule::new("counters", secs(3, 20))
            .and(minute(6))
            .with_algorithm(Algorithm::SlidingCounter)
            .with_growing_block(block(5), block(60)),
        Rule::new("open", minute(5))
            .with_algorithm(Algorithm::FixedWindow)
            .with_concurrent(2)
            .with_lease(HOUR),
        Rule::in_flight("one", 1).with_lease(HOUR),
    ]
}

/// Windows and algorithms that differ, and buckets whose `max` only rises: what they forget when it
/// falls differs between stores.
fn policies(favoured: &Key) -> Vec<Policy> {
    let minute = Limit::per_minute;
    let bucket = |max| Policy::new(minute(max)).with_algorithm(Algorithm::TokenBucket);
    vec![
        Policy::new(minute(3)).with_block(Duration::from_secs(10)),
        bucket(4),
        Policy::new(minute(3)).with_override(favoured, Override::max(5)),
        Policy::new(minute(2)).with_shadow(true),
        Policy::new(minute(6)).and(Limit::per_hour(8)),
        Policy::new(minute(3)).with_algorithm(Algorithm::FixedWindow),
        Policy::new(minute(5)).with_algorithm(Algorithm::FixedWindow),
        bucket(0),
        Policy::new(Limit::new(4, Duration::from_secs(30)))
            .with_algorithm(Algorithm::SlidingCounter)
            .with_growing_block(Duration::from_secs(7), Duration::from_secs(70)),
    ]
}

#[derive(Debug, Clone)]
struct Call {
    rule: usize,
    key: usize,
    cost: u64,
}

#[derive(Debug, Clone)]
enum Step {
    Acquire(Vec<Call>),
    Reserve(Vec<Call>),
    Enter(Vec<Call>),
    Peek(Call),
    End { which: usize, actual: Option<u64> },
    Forget { which: usize },
    Leave { which: usize },
    Refund { which: usize },
    Reset(Call),
    Block(Call, u64),
    Unblock(Call),
    Policies(usize),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = prop_oneof![6 => Just(1_u64), 1 => Just(0), 2 => 2_u64..4, 1 => 4_u64..12];
    let call = move |rules: std::ops::Range<usize>| {
        (rules, 0..KEYS, cost.clone()).prop_map(|(rule, key, cost)| Call { rule, key, cost })
    };
    let limited = call(0..IN_FLIGHT);
    let stack = prop::collection::vec(limited.clone(), 1..4);
    let entering = (
        call(IN_FLIGHT..RULES),
        prop::collection::vec(call(0..RULES), 0..3),
    );
    let entering = entering.prop_map(|(first, mut others)| {
        others.insert(0, first);
        others
    });
    let actual =
        prop_oneof![1 => Just(None), 3 => (0_u64..9).prop_map(Some), 1 => Just(Some(u64::MAX))];
    let pause = prop_oneof![
        Just(1_u64),
        1_u64..1_000_000,
        Just(10_000_000),
        1_u64..30_000_000,
        1_u64..90_000_000
    ];
    let step = prop_oneof![
        10 => limited.clone().prop_map(|call| Step::Acquire(vec![call])),
        10 => stack.clone().prop_map(Step::Acquire),
        5 => stack.prop_map(Step::Reserve),
        5 => entering.prop_map(Step::Enter),
        4 => call(0..RULES).prop_map(Step::Peek),
        6 => (0..9_usize, actual).prop_map(|(which, actual)| Step::End { which, actual }),
        1 => (0..9_usize).prop_map(|which| Step::Forget { which }),
        3 => (0..9_usize).prop_map(|which| Step::Leave { which }),
        3 => (0..20_usize).prop_map(|which| Step::Refund { which }),
        1 => limited.clone().prop_map(Step::Reset),
        1 => (limited.clone(), 1_u64..20_000_000).prop_map(|(call, time)| Step::Block(call, time)),
        1 => limited.prop_map(Step::Unblock),
        2 => (0..9_usize).prop_map(Step::Policies),
        8 => pause.prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..50)
}

/// A limiter, and what its calls have left open.
struct Column {
    name: &'static str,
    limiter: RateLimiter,
    reservations: Vec<Reservation>,
    permits: Vec<Permit>,
    /// The admissions of lone calls, and the set of policies under which each was charged.
    admitted: Vec<(Call, Decision, usize)>,
}

fn told(decision: &Decision) -> String {
    format!(
        "{}{} by {}#{} of {} in {:?}: {} left, retry {:?}, reset {:?}",
        if decision.is_allowed() { "yes" } else { "no" },
        if decision.is_blocked() {
            ", blocked"
        } else {
            ""
        },
        decision.rule(),
        decision.limit_index(),
        decision.limit(),
        decision.window(),
        decision.remaining(),
        decision.retry_after(),
        decision.reset_after(),
    )
}

fn all_told<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> String {
    let decisions: Vec<String> = decisions.into_iter().map(told).collect();
    decisions.join("; ")
}

fn refused(error: &RateLimitError) -> String {
    match error.decision() {
        Some(decision) => format!("refused: {}", told(decision)),
        None => format!("{error}"),
    }
}

fn shown<T: Debug>(changed: Result<T, RateLimitError>) -> String {
    changed.map_or_else(|error| refused(&error), |changed| format!("{changed:?}"))
}

impl Column {
    fn new(name: &'static str, limiter: RateLimiter) -> Self {
        Self {
            name,
            limiter,
            reservations: Vec::new(),
            permits: Vec::new(),
            admitted: Vec::new(),
        }
    }

    #[allow(clippy::too_many_lines, reason = "a table")]
    async fn step(&mut self, step: &Step, rules: &[Rule], keys: &[Key], set: usize) -> String {
        let limiter = &self.limiter;
        let of = |call: &Call| {
            let rule = rules.get(call.rule).unwrap();
            let rule = if call.rule == RULES - 1 {
                rule.clone()
            } else {
                rule.with_cost(call.cost)
            };
            (rule, keys.get(call.key).unwrap().clone())
        };
        let stack = |calls: &[Call]| calls.iter().map(of).collect::<Vec<_>>();
        match step {
            Step::Acquire(calls) => {
                let stack = stack(calls);
                if let ([(rule, key)], [call]) = (&*stack, &**calls) {
                    match limiter.acquire(rule, key).await {
                        Ok(decision) => {
                            self.admitted.push((call.clone(), decision, set));
                            told(&decision)
                        }
                        Err(error) => refused(&error),
                    }
                } else {
                    let decided = limiter
                        .acquire_all(stack.iter().map(|(rule, key)| (rule, key)))
                        .await;
                    decided.map_or_else(|error| refused(&error), |decided| all_told(&decided))
                }
            }
            Step::Reserve(calls) => {
                let stack = stack(calls);
                let reserved = limiter.reserve_all(stack.iter().map(|(rule, key)| (rule, key)));
                match reserved.await {
                    Ok(reservation) => {
                        let told = all_told(reservation.decisions());
                        self.reservations.push(reservation);
                        told
                    }
                    Err(error) => refused(&error),
                }
            }
            Step::Enter(calls) => {
                let stack = stack(calls);
                let entered = limiter.enter_all(stack.iter().map(|(rule, key)| (rule, key)));
                match entered.await {
                    Ok(permit) => {
                        let told = all_told(permit.decisions());
                        self.permits.push(permit);
                        told
                    }
                    Err(error) => refused(&error),
                }
            }
            Step::Peek(call) => {
                let (rule, key) = of(call);
                let peeked = limiter.peek(&rule, &key).await;
                peeked.map_or_else(|error| refused(&error), |decision| told(&decision))
            }
            Step::End { which, actual } => {
                if *which < self.reservations.len() {
                    let reservation = self.reservations.remove(*which);
                    match actual {
                        Some(actual) => reservation.commit(*actual),
                        None => reservation.release(),
                    }
                }
                String::new()
            }
            Step::Forget { which } => {
                if *which < self.reservations.len() {
                    drop(self.reservations.remove(*which));
                }
                String::new()
            }
            Step::Leave { which } => {
                if *which < self.permits.len() {
                    drop(self.permits.remove(*which));
                }
                String::new()
            }
            Step::Refund { which } => match self.admitted.get(*which) {
                Some((call, decision, charged)) if call.rule != BY_POLICY || *charged == set => {
                    let (rule, key) = of(call);
                    shown(limiter.refund(&rule, &key, decision).await)
                }
                _ => String::new(),
            },
            Step::Reset(call) => {
                let (rule, key) = of(call);
                // Whether there was anything: a store may know for longer what no longer counts.
                shown(limiter.reset(&rule, &key).await.map(drop))
            }
            Step::Block(call, micros) => {
                let (rule, key) = of(call);
                shown(
                    limiter
                        .block(&rule, &key, Duration::from_micros(*micros))
                        .await,
                )
            }
            Step::Unblock(call) => {
                let (rule, key) = of(call);
                shown(limiter.unblock(&rule, &key).await)
            }
            Step::Policies(_) | Step::Advance(_) => String::new(),
        }
    }
}

/// In several steps an estimate is reserved as `count` does, which others are told.
fn is_told_apart(step: &Step) -> bool {
    matches!(step, Step::Reserve(calls) if calls.len() > 1)
}

#[test]
fn memory_and_redis_tell_the_same() {
    compare(false);
}

#[test]
fn stacks_in_several_steps_tell_the_same() {
    compare(true);
}

fn compare(apart: bool) {
    let clock = FakeClock::new();
    let (cluster, prefix) = (Deployment::cluster(), unique("alike"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let on_redis = |url: &str| {
        let store = RedisStore::new(url).unwrap().with_clock(clock.clone());
        strict()
            .store(store.deny_cache(false))
            .prefix(&prefix)
            .policy("plan", Policy::new(Limit::per_minute(1)))
            .build()
            .unwrap()
    };
    let in_memory = |builder: RateLimiterBuilder| {
        builder
            .policy("plan", Policy::new(Limit::per_minute(1)))
            .build()
            .unwrap()
    };
    let layer = Layer(MemoryStore::new().with_clock(clock.clone()));
    let limiters = [
        ("memory", in_memory(super::in_memory(&clock))),
        ("a layer", in_memory(strict().store(layer))),
        ("Redis", on_redis(&shared().url())),
        ("a cluster", on_redis(&cluster.url())),
    ];
    let limiters: Vec<_> = limiters
        .into_iter()
        .filter(|(name, _)| apart || matches!(*name, "memory" | "Redis"))
        .collect();
    for (_, limiter) in &limiters {
        runtime.block_on(limiter.ready()).unwrap();
    }
    let cases = std::env::var("RATELIMIT_TEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(25);
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    });
    let rules = rules();
    let result = runner.run(&steps(), |steps| {
        let keys: Vec<Key> = (0..KEYS).map(|_| Key::of(&unique("key"))).collect();
        let policies = policies(&keys[0]);
        let mut set = 0;
        let mut columns: Vec<Column> = limiters
            .iter()
            .map(|(name, limiter)| Column::new(name, limiter.clone()))
            .collect();
        for step in [Step::Policies(0)].iter().chain(&steps) {
            match step {
                step if apart && is_told_apart(step) => continue,
                Step::Advance(micros) => clock.advance(Duration::from_micros(*micros)),
                Step::Policies(next) => {
                    set = *next;
                    for column in &columns {
                        let policy = policies.get(set).unwrap().clone();
                        column.limiter.set_policies([("plan", policy)]).unwrap();
                    }
                }
                _ => {}
            }
            let mut first = None;
            for column in &mut columns {
                let told = runtime.block_on(async {
                    let told = column.step(step, &rules, &keys, set).await;
                    settled(&column.limiter).await;
                    told
                });
                let (name, of_first) = first.get_or_insert((column.name, told.clone()));
                prop_assert_eq!(
                    &*of_first,
                    &told,
                    "{} and {}: {:?}",
                    name,
                    column.name,
                    step
                );
            }
        }
        for column in &mut columns {
            column.permits.clear();
            column.reservations.clear();
            runtime.block_on(settled(&column.limiter));
        }
        // What is known of other cases is over.
        clock.advance(2 * HOUR);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

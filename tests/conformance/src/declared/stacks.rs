//! Stacked keys: a limiter charges all of them or none, whether the store decides them in one step
//! or the limiter gives back what it has charged.

use std::sync::Arc;

use ratelimit_runtime::store::Feature;
use ratelimit_runtime::{
    Algorithm, Decision, Key, Limit, Policy, RateLimitError, RateLimiter, Rule, key, rate_limit,
};
use tokio::task::JoinSet;

use crate::bench::{Bench, HOUR, MICROSECOND, MINUTE, SECOND, answered};
use crate::suite::ALGORITHMS;

#[rate_limit(name = "conformance.one", key = "<name>", policy = "one", limiter = limiter)]
#[rate_limit(name = "conformance.other", key = "<name>", policy = "other", limiter = limiter)]
async fn one_and_other(limiter: &RateLimiter, name: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(name = "conformance.other", key = "<name>", policy = "other", limiter = limiter)]
#[rate_limit(name = "conformance.one", key = "<name>", policy = "one", limiter = limiter)]
async fn other_and_one(limiter: &RateLimiter, name: &str) -> Result<(), RateLimitError> {
    Ok(())
}

/// Two keys that are asked for together.
struct Pair {
    limiter: RateLimiter,
    name: String,
}

impl Pair {
    fn new(bench: &Bench, suffix: &str, one: Policy, other: Policy) -> Self {
        let limiter = bench
            .limiter_builder()
            .policy("one", one)
            .policy("other", other)
            .build();
        Self {
            limiter: answered(limiter),
            name: bench.name(suffix),
        }
    }

    async fn ask(&self) -> Result<(), RateLimitError> {
        one_and_other(&self.limiter, &self.name).await
    }

    /// What is left of each, and whether it is blocked, once all is given back that has to be.
    async fn left(&self) -> [(u64, bool); 2] {
        answered(self.limiter.settled_within(MINUTE).await);
        let name = self.name.as_str();
        let [one, other] = [("conformance.one", "one"), ("conformance.other", "other")].map(
            |(rule, policy)| async move {
                let rule = Rule::new(rule, Limit::per_minute(1)).with_policy(policy);
                let decision = answered(self.limiter.peek(&rule, &key!("<name>")).await);
                (decision.remaining(), decision.is_blocked())
            },
        );
        [one.await, other.await]
    }
}

fn policy(algorithm: Algorithm, limit: Limit) -> Policy {
    Policy::new(limit).with_algorithm(algorithm)
}

/// What one key refuses is charged to none, wherever it stands.
pub(crate) async fn all_keys_are_charged_or_none(bench: Bench, algorithm: Algorithm) {
    for (suffix, max, left) in [("first", [1, 5], [0, 4]), ("last", [5, 1], [4, 0])] {
        let [one, other] = max.map(|max| policy(algorithm, Limit::per_minute(max)));
        let pair = Pair::new(&bench, suffix, one, other);
        answered(pair.ask().await);
        for _ in 0..10 {
            assert!(matches!(pair.ask().await, Err(RateLimitError::Exceeded(_))));
        }
        assert_eq!(pair.left().await, left.map(|left| (left, false)));
    }
}

/// Once the wait that a refusal names is over, all keys admit.
pub(crate) async fn the_longest_wait_is_enough_for_all(bench: Bench, algorithm: Algorithm) {
    let pair = Pair::new(
        &bench,
        "",
        policy(algorithm, Limit::per_minute(1)),
        policy(algorithm, Limit::per_hour(1)),
    );
    answered(pair.ask().await);
    let refused = pair
        .ask()
        .await
        .err()
        .and_then(|error| error.retry_after())
        .unwrap_or_default();
    assert!(refused > MINUTE, "{refused:?}");
    bench.clock.advance(refused - MICROSECOND);
    assert!(pair.ask().await.is_err());
    bench.clock.advance(MICROSECOND);
    answered(pair.ask().await);
}

/// Once the wait that a refusal names is over, there is room for both charges of a key, and no
/// decision says that more is left than both leave.
pub(crate) async fn a_key_that_stands_twice_has_room_for_both(bench: Bench, algorithm: Algorithm) {
    let limiter = bench.limiter();
    let rule = Rule::named(bench.name("twice"), Limit::new(4, MINUTE)).with_algorithm(algorithm);
    let (light, heavy) = (rule.with_cost(1), rule.with_cost(2));
    for (name, stack) in [
        ("heavy last", [&light, &heavy]),
        ("heavy first", [&heavy, &light]),
    ] {
        let key = Key::of(name);
        let ask = || limiter.acquire_all(stack.map(|rule| (rule, &key)));
        for _ in 0..3 {
            answered(limiter.acquire(&light, &key).await);
            bench.clock.advance(SECOND);
        }
        let refused = ask().await.err().and_then(|error| error.retry_after());
        bench
            .clock
            .advance(refused.unwrap_or_default() - MICROSECOND);
        assert!(ask().await.is_err(), "{name}: {refused:?} is too long");
        bench.clock.advance(MICROSECOND);
        let decisions = answered(ask().await);
        answered(limiter.settled_within(MINUTE).await);
        let left = answered(limiter.peek(&rule, &key).await).remaining();
        let told = decisions.iter().map(Decision::remaining);
        assert_eq!(told.collect::<Vec<_>>(), [left, left], "{name}");
    }
}

/// Where there is room for one of two charges of a key, the key is blocked, and charged neither.
pub(crate) async fn a_key_that_stands_twice_is_blocked_once(bench: Bench, algorithm: Algorithm) {
    let (limiter, key) = (bench.limiter(), Key::global());
    let rule = Rule::named(bench.name("twice"), Limit::new(2, HOUR))
        .with_algorithm(algorithm)
        .with_block(MINUTE);
    answered(limiter.acquire(&rule, &key).await);
    let refused = limiter.acquire_all([(&rule, &key), (&rule, &key)]).await;
    assert!(matches!(refused, Err(RateLimitError::Exceeded(_))));
    answered(limiter.settled_within(MINUTE).await);
    assert!(answered(limiter.peek(&rule, &key).await).is_blocked());
    answered(limiter.unblock(&rule, &key).await);
    assert_eq!(answered(limiter.peek(&rule, &key).await).remaining(), 1);
}

/// Keys of different algorithms are stacked as keys of one are.
pub(crate) async fn algorithms_may_be_mixed(bench: Bench, algorithm: Algorithm) {
    for other in ALGORITHMS
        .iter()
        .copied()
        .filter(|other| bench.has(*other, Feature::Refund))
    {
        let (mine, theirs) = (
            policy(algorithm, Limit::per_minute(2)),
            policy(other, Limit::per_minute(3)),
        );
        let pair = Pair::new(&bench, &format!("{algorithm} {other}"), mine, theirs);
        for _ in 0..2 {
            answered(pair.ask().await);
        }
        assert!(matches!(pair.ask().await, Err(RateLimitError::Exceeded(_))));
        assert_eq!(pair.left().await, [(0, false), (1, false)], "with {other}");
    }
}

/// Tasks that name two keys in either order never pass a limit together, and never wait for each
/// other for ever.
pub(crate) async fn parallel_stacks_pass_no_limit(bench: Bench, algorithm: Algorithm) {
    let (one, other) = (Limit::new(20, MINUTE), Limit::new(50, MINUTE));
    let pair = Arc::new(Pair::new(
        &bench,
        "",
        policy(algorithm, one),
        policy(algorithm, other),
    ));
    let mut calls = JoinSet::new();
    for call in 0..200 {
        let pair = Arc::clone(&pair);
        calls.spawn(async move {
            let answer = if call % 2 == 0 {
                pair.ask().await
            } else {
                other_and_one(&pair.limiter, &pair.name).await
            };
            answer.is_ok()
        });
    }
    let passed = calls
        .join_all()
        .await
        .into_iter()
        .filter(|passed| *passed)
        .count();
    assert_eq!((passed, pair.left().await), (20, [(0, false), (30, false)]));
}

/// Of several keys, the one that alone refuses sets its block.
pub(crate) async fn only_those_that_refuse_block(bench: Bench, algorithm: Algorithm) {
    let [one, other] = [5, 1].map(|max| policy(algorithm, Limit::per_minute(max)).with_block(HOUR));
    let pair = Pair::new(&bench, "", one, other);
    answered(pair.ask().await);
    assert!(pair.ask().await.is_err());
    assert_eq!(pair.left().await, [(4, false), (0, true)]);
}

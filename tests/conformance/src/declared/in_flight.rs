//! Calls in flight, and limits beside them.

use ratelimit_runtime::{Algorithm, Key, Limit, Permit, RateLimitError, RateLimiter, Rule};

use crate::bench::{Bench, MINUTE, answered};
use crate::random::Random;

/// A key whose calls in flight are limited.
struct LimitedCalls {
    limiter: RateLimiter,
    rule: Rule,
    key: Key,
}

impl LimitedCalls {
    fn new(bench: &Bench, suffix: &str, rule: Rule) -> Self {
        Self {
            limiter: bench.limiter(),
            rule,
            key: Key::of(&bench.name(suffix)),
        }
    }

    async fn enter(&self) -> Result<Permit, RateLimitError> {
        self.limiter.enter(&self.rule, &self.key).await
    }

    async fn in_flight(&self) -> u64 {
        answered(self.limiter.in_flight(&self.rule, &self.key).await)
    }

    /// Releases a permit, and waits until the store knows.
    async fn release(&self, permit: Permit) {
        drop(permit);
        answered(self.limiter.settled_within(MINUTE).await);
    }
}

/// A rule that admits so many calls at a time.
fn at_a_time(max: u64, algorithm: Algorithm) -> Rule {
    let rule = Rule::named(
        format!("conformance.{max} at a time, {algorithm}"),
        Limit::per_hour(1_000),
    );
    rule.with_algorithm(algorithm).with_concurrent(max)
}

/// A permit is held until it is dropped, and each key has permits of its own.
pub(crate) async fn a_permit_is_held_until_it_is_dropped(bench: Bench, algorithm: Algorithm) {
    let [calls, others] =
        ["one", "other"].map(|suffix| LimitedCalls::new(&bench, suffix, at_a_time(2, algorithm)));
    let first = answered(calls.enter().await);
    assert_eq!(calls.in_flight().await, 1);
    let second = answered(calls.enter().await);
    let refused = calls.enter().await;
    assert!(
        matches!(&refused, Err(RateLimitError::Exceeded(_))),
        "{refused:?}"
    );
    assert_eq!(
        refused.err().and_then(|error| error.retry_after()),
        None,
        "no time frees a permit"
    );
    assert_eq!((calls.in_flight().await, others.in_flight().await), (2, 0));
    let _other = answered(others.enter().await);

    calls.release(first).await;
    assert_eq!(calls.in_flight().await, 1);
    let _third = answered(calls.enter().await);
    assert!(calls.enter().await.is_err());
    drop(second);
}

/// A limit is charged and the permit is acquired, or neither.
pub(crate) async fn a_call_without_a_permit_is_charged_nothing(bench: Bench, algorithm: Algorithm) {
    let rule = Rule::named(
        format!("conformance.a permit beside {algorithm}"),
        Limit::per_hour(2),
    );
    let rule = rule.with_algorithm(algorithm);
    let calls = LimitedCalls::new(&bench, "", rule.clone().with_concurrent(1));
    let left = async || answered(calls.limiter.peek(&rule, &calls.key).await).remaining();
    let first = answered(calls.enter().await);
    assert!(calls.enter().await.is_err());
    assert_eq!(
        left().await,
        1,
        "a call that gets no permit is charged nothing"
    );
    calls.release(first).await;
    let second = answered(calls.enter().await);
    calls.release(second).await;
    let refused = calls.enter().await;
    assert!(
        matches!(&refused, Err(RateLimitError::Exceeded(_))),
        "{refused:?}"
    );
    drop(refused);
    answered(calls.limiter.settled_within(MINUTE).await);
    assert_eq!(
        calls.in_flight().await,
        0,
        "a call that a limit refuses takes no permit"
    );
}

/// Random calls that begin and end agree with a list of permits.
pub(crate) async fn random_calls_in_flight_agree_with_the_model(
    bench: Bench,
    algorithm: Algorithm,
) {
    const MAX: usize = 4;
    let calls = LimitedCalls::new(&bench, "", at_a_time(MAX as u64, algorithm));
    let mut random = Random(7);
    let mut open: Vec<Permit> = Vec::new();
    for step in 0..120 {
        if random.within(0, 2) > 0 {
            let permit = calls.enter().await;
            assert_eq!(
                permit.is_ok(),
                open.len() < MAX,
                "step {step}: {permit:?} beside {}",
                open.len()
            );
            open.extend(permit);
        } else if !open.is_empty() {
            let nth = random.within(0, open.len() as u64 - 1);
            calls
                .release(open.swap_remove(usize::try_from(nth).unwrap_or(0)))
                .await;
        }
        assert_eq!(calls.in_flight().await, open.len() as u64, "step {step}");
    }
}

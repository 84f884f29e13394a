//! Several rules at once, by hand: all are charged, or none.

use ratelimit_runtime::{Decision, Limit, RateLimitError, Rule};

use super::*;
use crate::support::{layer::Layer, settled};

static PER_USER: Rule = Rule::new("several-user", Limit::per_hour(3));
static OF_TENANT: Rule =
    Rule::new("several-tenant", Limit::per_hour(4)).with_algorithm(Algorithm::TokenBucket);
static IN_FLIGHT: Rule = Rule::new("several-open", Limit::per_hour(10)).with_concurrent(1);

fn left(decisions: &[Decision]) -> Vec<u64> {
    decisions.iter().map(Decision::remaining).collect()
}

#[tokio::test]
async fn several_rules_are_charged_together_or_not_at_all() {
    for limiter in everywhere(&FakeClock::new()) {
        let tenant = Key::of("acme");
        let call = async |user: &Key| {
            let calls = [(&PER_USER, user), (&OF_TENANT, &tenant)];
            limiter.acquire_all(calls).await
        };
        for (of_user, of_tenant) in [(2, 3), (1, 2), (0, 1)] {
            let admitted = call(&alice()).await.unwrap();
            assert_eq!(left(&admitted), [of_user, of_tenant]);
        }
        let refused = call(&alice()).await.unwrap_err();
        let RateLimitError::Exceeded(refusal) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(refusal.rule(), "several-user");
        let of_tenant = limiter.peek(&OF_TENANT, &tenant).await.unwrap();
        assert_eq!(of_tenant.remaining(), 1, "the other is not charged");
        assert_eq!(left(&call(&bob()).await.unwrap()), [2, 0]);
        assert!(call(&bob()).await.is_err());
        let of_bob = limiter.peek(&PER_USER, &bob()).await.unwrap();
        assert_eq!(of_bob.remaining(), 2);
    }
}

/// No time admits such a call: a refusal with a wait would be asked for again and again.
#[tokio::test]
async fn a_key_that_is_asked_for_more_than_its_limit_in_all_is_never_admitted() {
    for limiter in everywhere(&FakeClock::new()) {
        let (key, two) = (alice(), PER_USER.with_cost(2));
        let calls = [(&two, &key), (&OF_TENANT, &key), (&two, &key)];
        for _ in 0..2 {
            let error = limiter.acquire_all(calls).await.unwrap_err();
            let RateLimitError::CostExceedsLimit { cost, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!(cost, 4);
        }
        let left = limiter.peek(&PER_USER, &key).await.unwrap();
        assert_eq!(left.remaining(), 3);
    }
}

static A_MINUTE: Rule = Rule::new("several-tokens-minute", Limit::per_minute(1_000))
    .with_algorithm(Algorithm::TokenBucket);
static A_DAY: Rule = Rule::new("several-tokens-day", Limit::per_day(10_000))
    .with_algorithm(Algorithm::SlidingCounter);

#[tokio::test]
async fn an_estimate_of_several_rules_is_settled_once() {
    for limiter in everywhere(&FakeClock::new()) {
        let key = alice();
        let (minute, day) = (A_MINUTE.with_cost(400), A_DAY.with_cost(400));
        let calls = [(&minute, &key), (&day, &key)];
        let used = async |rule: &Rule| {
            let decision = limiter.peek(rule, &key).await.unwrap();
            decision.limit() - decision.remaining()
        };
        let reservation = limiter.reserve_all(calls).await.unwrap();
        assert_eq!(left(reservation.decisions()), [600, 9_600]);
        assert_eq!(reservation.decision().rule(), "several-tokens-minute");
        reservation.commit(150);
        settled(&limiter).await;
        assert_eq!([used(&A_MINUTE).await, used(&A_DAY).await], [150, 150]);
        limiter.reserve_all(calls).await.unwrap().release();
        settled(&limiter).await;
        assert_eq!([used(&A_MINUTE).await, used(&A_DAY).await], [150, 150]);
        // Dropped, it counts as estimated; then the minute has no room for another.
        drop(limiter.reserve_all(calls).await.unwrap());
        drop(limiter.reserve_all(calls).await.unwrap());
        assert!(limiter.reserve_all(calls).await.is_err());
        settled(&limiter).await;
        assert_eq!([used(&A_MINUTE).await, used(&A_DAY).await], [950, 950]);
    }
}

/// Of one step it counts as spent, for who asks and for who waits.
#[tokio::test]
async fn an_estimate_in_several_steps_is_a_reservation_until_its_call_ends() {
    let (limiter, key) = (RateLimiter::with_store(Layer(MemoryStore::new())), alice());
    let all = PER_USER.with_cost(3);
    let open = limiter.reserve_all([(&all, &key), (&OF_TENANT, &key)]);
    let open = open.await.unwrap();
    let wait = async || {
        limiter
            .acquire(&PER_USER, &key)
            .await
            .unwrap_err()
            .retry_after()
    };
    assert_eq!(wait().await, Some(Duration::from_millis(50)));
    open.commit(3);
    assert!(wait().await > Some(MINUTE));
}

#[tokio::test]
async fn a_call_in_flight_of_several_rules_has_a_permit_and_all_charges_or_nothing() {
    for limiter in everywhere(&FakeClock::new()) {
        let key = alice();
        let calls = [(&PER_USER, &key), (&IN_FLIGHT, &key)];
        let permit = limiter.enter_all(calls).await.unwrap();
        assert_eq!(permit.decisions().len(), 2);
        let full = limiter.enter_all(calls).await.unwrap_err();
        assert_eq!(full.retry_after(), None);
        drop(permit);
        settled(&limiter).await;
        let left = limiter.peek(&PER_USER, &key).await.unwrap().remaining();
        assert_eq!(left, 2, "the refused call was charged nothing");
        drop(limiter.enter_all(calls).await.unwrap());
        let error = limiter.enter_all([(&PER_USER, &key)]).await.unwrap_err();
        assert!(matches!(error, RateLimitError::Misconfigured(_)));
    }
}

#[tokio::test]
async fn a_stack_by_hand_without_a_rule_or_of_one_that_needs_a_permit_is_misconfigured() {
    let limiter = RateLimiter::memory();
    let key = alice();
    let errors = [
        limiter.acquire_all([]).await.unwrap_err(),
        limiter.reserve_all([]).await.unwrap_err(),
        limiter.enter_all([]).await.unwrap_err(),
        limiter.acquire_all([(&IN_FLIGHT, &key)]).await.unwrap_err(),
        limiter.reserve_all([(&IN_FLIGHT, &key)]).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, RateLimitError::Misconfigured(_)), "{error}");
    }
}

/// There is never room to settle as many: each call would be an outage.
#[tokio::test]
async fn a_stack_of_several_steps_with_too_many_rules_is_misconfigured() {
    let limiter = RateLimiter::with_store(Layer(MemoryStore::new()));
    let keys: Vec<Key> = (0..10_001).map(|id| Key::of(&id)).collect();
    let all = limiter.acquire_all(keys.iter().map(|key| (&PER_USER, key)));
    let error = all.await.map(drop).unwrap_err();
    assert!(matches!(error, RateLimitError::Misconfigured(_)), "{error}");
}

/// As the recipients of one mail: more than one script can name.
#[tokio::test]
async fn hundreds_of_rules_are_charged_together_or_not_at_all() {
    let clock = FakeClock::new();
    let rule = Rule::new("recipient", Limit::per_minute(1));
    let keys: Vec<Key> = (0..300).map(|id| Key::of(&id)).collect();
    for limiter in everywhere(&clock) {
        for most in [253, 254, 255, 300] {
            let keys = keys.get(..most).unwrap();
            let last = keys.last().unwrap();
            let calls = || keys.iter().map(|key| (&rule, key));
            let reset = async || {
                for key in keys {
                    limiter.reset(&rule, key).await.unwrap();
                }
            };
            limiter.acquire(&rule, last).await.unwrap();
            let refused = limiter.acquire_all(calls()).await.unwrap_err();
            assert!(refused.decision().is_some(), "{refused:?}");
            limiter.reset(&rule, last).await.unwrap();
            let decisions = limiter.acquire_all(calls()).await.unwrap();
            assert_eq!(decisions.len(), most);
            reset().await;

            let entered = calls().skip(1).chain([(&IN_FLIGHT, last)]);
            let permit = limiter.enter_all(entered).await.unwrap();
            assert_eq!(permit.decisions().len(), most);
            drop(permit);
            settled(&limiter).await;
            reset().await;
        }
    }
}

/// The time that this thread has run, whatever else the machine does.
fn spent() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(spent).unwrap()
}

/// Of the recipients of one call there may be thousands, and one may stand twice.
#[tokio::test]
async fn eight_times_as_many_keys_take_no_more_than_some_eight_times_as_long() {
    static RULE: Rule = Rule::new("several-many", Limit::per_hour(1_000_000))
        .with_algorithm(Algorithm::TokenBucket);
    type KeyOf = fn(usize) -> usize;
    let shapes: [(&str, KeyOf); 3] = [
        ("all differ", |number| number),
        ("two are equal", |number| number.max(1)),
        ("all are equal", |_| 0),
    ];
    let limiter = RateLimiter::memory();
    for (shape, key_of) in shapes {
        let mut fastest = [Duration::MAX; 2];
        for _ in 0..5 {
            for (fastest, keys) in fastest.iter_mut().zip([1_000, 8_000]) {
                let keys: Vec<_> = (0..keys).map(|number| Key::of(&key_of(number))).collect();
                let start = spent();
                let stack = keys.iter().map(|key| (&RULE, key));
                assert!(limiter.acquire_all(stack).await.is_ok());
                *fastest = spent().saturating_sub(start).min(*fastest);
            }
        }
        let [few, many] = fastest;
        println!("{shape}: {few:?}, {many:?}");
        assert!(many < 24 * few, "{shape}: {few:?}, {many:?}");
    }
}

/// All callers of a limiter join queues under one lock.
#[tokio::test(start_paused = true)]
async fn stacks_of_hundreds_of_keys_that_wait_keep_no_other_caller_waiting() {
    let limiter = RateLimiter::memory();
    let own = Rule::new("own", Limit::per_minute(1_000));
    let of_all = Rule::new("of_all", Limit::per_minute(1)).with_wait(MINUTE);
    let global = Key::global();
    let _ = limiter.acquire(&of_all, &global).await.unwrap();
    let keys: Vec<Key> = (0..300).map(|id| Key::of(&id)).collect();
    let call = || {
        let calls = keys.iter().map(|key| (&own, key));
        limiter.acquire_all(calls.chain([(&of_all, &global)]))
    };
    let mut waiting: Vec<_> = (0..400).map(|_| Box::pin(call())).collect();
    let mut took = Vec::new();
    for calls in waiting.chunks_mut(100) {
        let before = spent();
        for call in calls {
            assert!(futures_util::poll!(call).is_pending());
        }
        took.push(spent().checked_sub(before).unwrap());
    }
    assert!(took[3] < 3 * took[0], "{took:?}");
}

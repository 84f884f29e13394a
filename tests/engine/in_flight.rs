//! Calls in flight: permits are acquired, waited for and released once, however a call ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::__private::{BuiltInStore, PermitRequest, PermitVerdict, Sealed};
use ratelimit_runtime::store::{Answer, Request, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Decision, Key, Limit, MemoryStore, OnUnavailable, Policy, RateLimitError, RateLimiter, Rule,
    Source, Store, rate_limit,
};
use tokio::time::Instant;

use crate::capabilities::Careless;
use crate::support::layer::{Layer, forward};
use crate::support::{misconfigured, polled, says, settled};
use crate::{Flooded, Outcome};

static TWO: Rule = Rule::in_flight("two", 2);

fn alice() -> Key {
    Key::of("alice")
}

fn is_full<T: std::fmt::Debug>(answer: &Result<T, RateLimitError>) -> bool {
    let Err(error) = answer else { return false };
    assert_eq!(
        (error.retry_after(), &*error.to_string()),
        (None, "too many calls in flight")
    );
    matches!(error, RateLimitError::Exceeded(refusal) if refusal.is_in_flight_limit() && refusal.limit() > 0)
}

/// A memory that other processes could share, for all the limiter knows: two limiters on it are
/// like two processes. It counts what it is asked.
#[derive(Clone)]
struct Shared {
    memory: Arc<MemoryStore>,
    asked: Arc<AtomicU64>,
}

impl Shared {
    fn new() -> Self {
        Self {
            memory: Arc::new(MemoryStore::new()),
            asked: Arc::default(),
        }
    }

    fn limiter(&self) -> RateLimiter {
        RateLimiter::with_store(self.clone())
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Store for Shared {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.memory)
    }

    forward!(memory: acquire, peek, reset);

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl BuiltInStore for Shared {
    fn decides_together(&self, _: Option<&PermitRequest>, _: &[Request<'_>]) -> bool {
        false
    }

    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.memory.acquire_all(permit, requests)
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.memory.offend(request)
    }

    fn release_permit(&self, permit: &PermitRequest) {
        self.memory.release_permit(permit);
    }

    fn in_flight(&self, permit: PermitRequest) -> Answer<'_, u64> {
        self.memory.in_flight(permit)
    }
}

#[tokio::test]
async fn a_permit_is_released_below_a_faulty_store_around_a_layer() {
    let limiter = RateLimiter::with_store(FaultyStore::new(Layer(MemoryStore::new())));
    drop(limiter.enter(&TWO, &alice()).await.unwrap());
    assert_eq!(limiter.in_flight(&TWO, &alice()).await.unwrap(), 0);
}

/// Calls of other keys may be as many as they like: they neither take the permits of a key, nor let
/// more of its calls in.
#[tokio::test]
async fn in_a_full_store_each_key_has_its_own_permits() {
    let limiter = RateLimiter::with_store(MemoryStore::with_capacity(1));
    let enter = async |key: u64| limiter.enter(&TWO, &Key::of(&key)).await;
    let mut first = vec![enter(0).await.unwrap()];
    let mut others = Vec::new();
    for key in 1..=100 {
        others.extend([enter(key).await.unwrap(), enter(key).await.unwrap()]);
        assert!(is_full(&enter(key).await), "{key}");
    }
    first.clear();
    for key in 1..=100 {
        assert!(
            is_full(&enter(key).await),
            "{key}: there is room for another key, and none for its calls"
        );
    }
    drop(others);
    assert_eq!(limiter.in_flight(&TWO, &Key::of(&7_u64)).await.unwrap(), 0);
}

#[rate_limit(limiter = limiter, name = "beside", window = "1h", max = 5, concurrent = 2)]
#[rate_limit(limiter = observer, name = "observed", window = "1h", max = 5, shadow)]
async fn observed(limiter: &RateLimiter, observer: &RateLimiter) -> Outcome {
    std::future::ready(Ok(())).await
}

/// A rule in shadow mode is asked last, and may be slow: meanwhile the caller gives up.
#[tokio::test]
async fn an_attempt_in_several_steps_ends_as_it_would_have_without_its_caller() {
    let (limiter, observer) = (RateLimiter::memory(), RateLimiter::with_store(Flooded));
    for _ in 0..2 {
        tokio::select! {
            biased;
            outcome = observed(&limiter, &observer) => panic!("{outcome:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    let beside = Rule::new("beside", Limit::per_hour(5)).with_concurrent(2);
    let peeked = async || limiter.peek(&beside, &Key::global()).await.unwrap();
    while peeked().await.remaining() > 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    settled(&limiter).await;
    assert_eq!(peeked().await.remaining(), 3, "both calls are charged");
    assert_eq!(limiter.in_flight(&beside, &Key::global()).await.unwrap(), 0);
}

#[tokio::test]
async fn where_limits_and_concurrent_refuse_retry_after_is_of_the_limits() {
    let memory = Arc::new(MemoryStore::new());
    let [here, elsewhere] = [(); 2].map(|()| RateLimiter::with_store(Arc::clone(&memory)));
    let rule = Rule::new("both", Limit::per_hour(1)).with_concurrent(1);
    let permit = here.enter(&rule, &alice()).await.unwrap();
    let refusal = elsewhere.enter(&rule, &alice()).await.unwrap_err();
    assert!(refusal.retry_after().is_some() && !refusal.decision().unwrap().is_in_flight_limit());
    drop(permit);
}

#[tokio::test]
async fn peek_is_refused_by_the_limits_or_else_by_concurrent() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("looked_at", Limit::per_hour(2)).with_concurrent(1);
    let look = async || limiter.peek(&rule, &alice()).await.unwrap();
    let permit = limiter.enter(&rule, &alice()).await.unwrap();
    assert!(!look().await.is_allowed() && look().await.is_in_flight_limit());
    drop(permit);
    assert!(look().await.is_allowed() && !look().await.is_in_flight_limit());
    let _permit = limiter.enter(&rule, &alice()).await.unwrap();
    assert!(!look().await.is_allowed() && !look().await.is_in_flight_limit());
}

#[tokio::test]
async fn a_process_that_holds_all_permits_does_not_ask_the_store() {
    let store = Shared::new();
    let (here, elsewhere) = (store.limiter(), store.limiter());
    let permits = [
        here.enter(&TWO, &alice()).await.unwrap(),
        here.enter(&TWO, &alice()).await.unwrap(),
    ];
    let asked = store.asked();
    for _ in 0..100 {
        assert!(is_full(&here.enter(&TWO, &alice()).await));
    }
    assert_eq!(store.asked(), asked);
    assert!(is_full(&elsewhere.enter(&TWO, &alice()).await));
    assert_eq!(store.asked(), asked + 1);
    drop(permits);
    assert!(elsewhere.enter(&TWO, &alice()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_turn_when_permits_are_released() {
    for limiter in [RateLimiter::memory(), Shared::new().limiter()] {
        let rule = Rule::in_flight("queued", 1).with_wait(Duration::from_secs(60));
        let first = limiter.enter(&rule, &alice()).await.unwrap();
        let served = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..30 {
            let (limiter, rule, served) = (limiter.clone(), rule.clone(), Arc::clone(&served));
            tasks.spawn(async move {
                let permit = limiter.enter(&rule, &alice()).await.unwrap();
                served.lock().unwrap().push(number);
                tokio::time::sleep(Duration::from_millis(10)).await;
                drop(permit);
            });
            // Each is in the queue before the next comes.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let start = Instant::now();
        drop(first);
        tasks.join_all().await;
        assert_eq!(*served.lock().unwrap(), (0..30).collect::<Vec<_>>());
        // A permit that is handed over is not polled for.
        assert!(
            start.elapsed() < Duration::from_millis(30 * 10 + 50),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(limiter.in_flight(&rule, &alice()).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn after_half_a_second_of_one_process_another_gets_the_next_permit() {
    let store = Shared::new();
    let (here, elsewhere) = (store.limiter(), store.limiter());
    let rule = Rule::in_flight("fair", 1).with_wait(Duration::from_secs(600));
    let first = here.enter(&rule, &alice()).await.unwrap();
    let begun = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (limiter, rule, begun) = (here.clone(), rule.clone(), Arc::clone(&begun));
        tasks.spawn(async move {
            let permit = limiter.enter(&rule, &alice()).await.unwrap();
            begun.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(permit);
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(first);
    let start = Instant::now();
    let permit = elsewhere.enter(&rule, &alice()).await.unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert!(
        begun.load(Ordering::SeqCst) < 30,
        "the queue of one process has not kept it to itself"
    );
    drop(permit);
    tasks.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_elsewhere_asks_again_within_a_quarter_of_a_second() {
    let store = Shared::new();
    let (here, elsewhere) = (store.limiter(), store.limiter());
    let rule = Rule::in_flight("polled", 1).with_wait(Duration::from_secs(10));
    let permit = here.enter(&rule, &alice()).await.unwrap();
    let waiting = tokio::spawn({
        let rule = rule.clone();
        async move { elsewhere.enter(&rule, &alice()).await }
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        (13..=62).contains(&store.asked()),
        "it asks every 50 to 250 ms: {}",
        store.asked()
    );
    let left = Instant::now();
    drop(permit);
    drop(waiting.await.unwrap().unwrap());
    assert!(
        left.elapsed() <= Duration::from_millis(251),
        "{:?}",
        left.elapsed()
    );
}

/// While this process holds all permits no store is asked: but for its limits, too, such a call
/// would wait in vain.
#[tokio::test(start_paused = true)]
async fn a_call_whose_limit_is_used_up_waits_for_no_permit() {
    let hour = Duration::from_secs(3_600);
    let minute = Duration::from_secs(60);
    let both = Rule::new("both", Limit::per_hour(1))
        .with_concurrent(1)
        .with_wait(minute);
    let (queue, hourly) = (
        Rule::in_flight("queue", 1).with_wait(minute),
        Rule::new("hourly", Limit::per_hour(1)),
    );
    for limiter in [RateLimiter::memory(), Shared::new().limiter()] {
        for stack in [&[&both][..], &[&queue, &hourly]] {
            let key = alice();
            let enter = async || {
                limiter
                    .enter_all(stack.iter().map(|rule| (*rule, &key)))
                    .await
            };
            let permit = enter().await.unwrap();
            let start = Instant::now();
            let refused = enter().await.unwrap_err();
            assert_eq!(start.elapsed(), Duration::ZERO);
            assert_eq!(refused.retry_after(), Some(hour), "{refused}");
            drop(permit);
        }
    }
}

/// A call that enters its own key again waits for itself.
#[tokio::test(start_paused = true)]
async fn a_nested_call_on_its_own_key_is_refused_after_its_wait() {
    let limiter = RateLimiter::memory();
    let rule = Rule::in_flight("nested", 1).with_wait(Duration::from_secs(2));
    let outer = limiter.enter(&rule, &alice()).await.unwrap();
    let start = Instant::now();
    let inner = limiter.enter(&rule, &alice()).await;
    assert_eq!(start.elapsed().as_secs(), 2);
    assert!(is_full(&inner), "{inner:?}");
    drop(outer);
    assert!(limiter.enter(&rule, &alice()).await.is_ok());
}

/// A refused attempt that had two permits of its key would wake itself by releasing them, again and
/// again.
#[tokio::test(start_paused = true)]
async fn a_call_that_needs_more_permits_of_a_key_than_there_are_waits_calmly_in_an_outage() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    let (rule, key) = (TWO.clone().with_wait(Duration::from_secs(2)), alice());
    store.fail();
    let start = Instant::now();
    let refused = polled(limiter.enter_all([(&rule, &key); 3]), 500).await;
    assert!(refused.is_some_and(|refused| is_full(&refused.map(drop))));
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    let both = limiter.enter_all([(&rule, &key); 2]).await;
    assert_eq!(both.unwrap().decisions().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn waiters_that_give_up_at_any_moment_leave_no_permit_taken() {
    for limiter in [RateLimiter::memory(), Shared::new().limiter()] {
        let rule = Rule::in_flight("abandoned", 2).with_wait(Duration::from_secs(60));
        for seed in 0..200_u64 {
            let mut tasks = tokio::task::JoinSet::new();
            for caller in 0..8 {
                let (limiter, rule) = (limiter.clone(), rule.clone());
                tasks.spawn(async move {
                    let patience = Duration::from_millis((seed * 31 + caller * 17) % 97);
                    let acquired =
                        tokio::time::timeout(patience, limiter.enter(&rule, &alice())).await;
                    if let Ok(Ok(permit)) = acquired {
                        tokio::time::sleep(Duration::from_millis((seed * 7 + caller * 13) % 23))
                            .await;
                        drop(permit);
                    }
                });
            }
            if seed % 3 == 0 {
                tokio::time::sleep(Duration::from_millis(seed % 41)).await;
                tasks.abort_all();
            }
            while tasks.join_next().await.is_some() {}
            assert_eq!(
                limiter.in_flight(&rule, &alice()).await.unwrap(),
                0,
                "round {seed}"
            );
        }
    }
}

#[tokio::test]
async fn in_an_outage_concurrent_holds_within_the_process() {
    let store = FaultyStore::new(MemoryStore::new());
    let of = |policy| {
        RateLimiter::builder()
            .store(store.clone())
            .on_unavailable(policy)
            .build()
            .unwrap()
    };
    let (local, allow, deny) = (
        of(OnUnavailable::Local),
        of(OnUnavailable::Allow),
        of(OnUnavailable::Deny),
    );
    let before = local.enter(&TWO, &alice()).await.unwrap();
    store.fail();
    let during = local.enter(&TWO, &alice()).await.unwrap();
    assert_eq!(
        (during.decision().source(), during.decision().remaining()),
        (Source::Fallback, 0)
    );
    assert!(
        is_full(&local.enter(&TWO, &alice()).await),
        "one from before the outage, one from now"
    );
    assert!(!local.peek(&TWO, &alice()).await.unwrap().is_allowed());
    let unchecked: Vec<_> = [
        allow.enter(&TWO, &alice()).await,
        allow.enter(&TWO, &alice()).await,
    ]
    .into();
    let is_unchecked =
        |decision: &Decision| decision.source() == Source::Nobody && decision.remaining() == 0;
    assert!(
        unchecked
            .iter()
            .flatten()
            .all(|permit| is_unchecked(permit.decision()))
    );
    assert!(matches!(
        deny.enter(&TWO, &alice()).await,
        Err(RateLimitError::Unavailable(_))
    ));
    store.fail_with(StoreErrorKind::Misconfigured);
    assert!(matches!(
        deny.enter(&TWO, &alice()).await,
        Err(RateLimitError::Misconfigured(_))
    ));
    store.heal();
    drop((before, during, unchecked));
    assert_eq!(local.in_flight(&TWO, &alice()).await.unwrap(), 0);
}

/// Under `allow` an outage admits every call, also while this process has as many in flight.
#[tokio::test(start_paused = true)]
async fn an_outage_under_allow_admits_more_than_concurrent() {
    let patient = TWO.clone().with_wait(Duration::from_secs(5));
    for fails in [FaultyStore::fail, FaultyStore::hang] {
        let store = FaultyStore::new(MemoryStore::new());
        let allow = RateLimiter::builder().store(store.clone());
        let allow = allow.on_unavailable(OnUnavailable::Allow).build().unwrap();
        let mut open = vec![
            allow.enter(&TWO, &alice()).await.unwrap(),
            allow.enter(&TWO, &alice()).await.unwrap(),
        ];
        assert!(is_full(&allow.enter(&TWO, &alice()).await));
        let waits = tokio::spawn({
            let (allow, patient) = (allow.clone(), patient.clone());
            async move { allow.enter(&patient, &alice()).await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        fails(&store);
        let start = Instant::now();
        open.push(waits.await.unwrap().unwrap());
        for rule in [&TWO, &patient, &TWO] {
            open.push(allow.enter(rule, &alice()).await.unwrap());
        }
        assert!(start.elapsed() < Duration::from_secs(1));
        for unchecked in &open[2..] {
            assert_eq!(unchecked.decision().source(), Source::Nobody);
        }
        store.heal();
        assert!(is_full(&allow.enter(&TWO, &alice()).await));

        // A full store is no outage.
        store.fail_with(StoreErrorKind::Full);
        drop(open.split_off(2));
        assert!(is_full(&allow.enter(&TWO, &alice()).await));
        store.heal();
        drop(open);
        assert_eq!(allow.in_flight(&TWO, &alice()).await.unwrap(), 0);
    }
}

/// A store that is up and late must not let more through than a permit each.
#[tokio::test]
async fn a_late_store_admits_no_more_than_concurrent() {
    let limiter = RateLimiter::builder()
        .store(Flooded)
        .timeout(Duration::from_millis(20));
    let limiter = limiter
        .on_unavailable(OnUnavailable::Allow)
        .build()
        .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let limiter = limiter.clone();
        tasks.spawn(async move { limiter.enter(&TWO, &alice()).await });
    }
    let answers = tasks.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 2);
    assert!(answers.iter().filter(|answer| answer.is_err()).all(is_full));
}

#[tokio::test]
async fn a_shadow_rule_with_concurrent_records_and_admits() {
    let limiter = RateLimiter::memory();
    let rule = Rule::in_flight("shadow", 1)
        .with_shadow(true)
        .with_wait(Duration::from_secs(60));
    let first = limiter.enter(&rule, &alice()).await.unwrap();
    let second = limiter.enter(&rule, &alice()).await.unwrap();
    assert!(first.decision().is_allowed() && !second.decision().is_allowed());
    assert_eq!(
        limiter.in_flight(&rule, &alice()).await.unwrap(),
        1,
        "a refused call holds none"
    );
    drop(first);
    drop(second);
    assert_eq!(limiter.in_flight(&rule, &alice()).await.unwrap(), 0);
}

#[tokio::test]
async fn a_policy_gives_the_limits_beside_concurrent() {
    let policy = Policy::new(Limit::per_hour(1));
    let limiter = RateLimiter::builder()
        .store(MemoryStore::new())
        .policy("plan", policy)
        .build()
        .unwrap();
    let rule = Rule::in_flight("planned", 1).with_policy("plan");
    drop(limiter.enter(&rule, &alice()).await.unwrap());
    assert!(
        limiter
            .enter(&rule, &alice())
            .await
            .unwrap_err()
            .retry_after()
            .is_some()
    );
    assert_eq!(limiter.in_flight(&rule, &alice()).await.unwrap(), 0);
}

#[tokio::test]
async fn operations_that_do_not_fit_concurrent_are_misconfigured() {
    let plain = RateLimiter::with_store(Careless);
    says(
        &misconfigured(plain.enter(&TWO, &alice()).await),
        "`concurrent`",
    );
    says(
        &misconfigured(plain.in_flight(&TWO, &alice()).await),
        "`concurrent`",
    );
    says(
        &misconfigured(plain.peek(&TWO, &alice()).await),
        "`concurrent`",
    );

    let limiter = RateLimiter::memory();
    let hourly = Rule::new("limited", Limit::per_hour(1));
    says(
        &misconfigured(limiter.enter(&hourly, &alice()).await),
        "`acquire`",
    );
    says(
        &misconfigured(limiter.in_flight(&hourly, &alice()).await),
        "`limited`",
    );
    says(
        &misconfigured(limiter.acquire(&TWO, &alice()).await),
        "`enter`",
    );
    says(
        &misconfigured(limiter.reserve(&TWO, &alice()).await),
        "`enter`",
    );
    says(
        &misconfigured(limiter.reset(&TWO, &alice()).await),
        "calls in flight",
    );
    says(
        &misconfigured(limiter.block(&TWO, &alice(), Duration::from_secs(1)).await),
        "calls in flight",
    );
    says(
        &misconfigured(limiter.unblock(&TWO, &alice()).await),
        "calls in flight",
    );
}

/// The limit of a customer who may not call for now. Such a call does not wait either.
#[tokio::test(start_paused = true)]
async fn concurrent_0_refuses_every_call_without_retry_after() {
    let limiter = RateLimiter::memory();
    let start = Instant::now();
    let none = Rule::in_flight("none", 0).with_wait(Duration::from_secs(60));
    let refused = limiter.enter(&none, &alice()).await.unwrap_err();
    let refusal = refused.decision().unwrap();
    assert!(refusal.is_in_flight_limit() && refusal.limit() == 0);
    assert_eq!(refused.retry_after(), None);
    assert_eq!(limiter.peek(&none, &alice()).await.unwrap(), *refusal);
    assert_eq!(limiter.in_flight(&none, &alice()).await.unwrap(), 0);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// A permit is released that may have been acquired: the answer that says so was dropped.
#[tokio::test]
async fn a_permit_whose_answer_was_dropped_is_released() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .timeout(Duration::from_millis(5))
        .build()
        .unwrap();
    store.hang();
    let during = limiter.enter(&TWO, &alice()).await.unwrap();
    assert_eq!(during.decision().source(), Source::Fallback);
    store.heal();
    drop(during);
    let permit = PermitRequest::new(b"rl1:cc:two:<alice>", 2);
    assert_eq!(store.in_flight(permit).await.unwrap(), 0);
}

/// A new set of policies begins a queue of its own, for which a permit of before is as good.
#[tokio::test(start_paused = true)]
async fn a_permit_from_before_a_new_set_of_policies_goes_to_who_waits_under_that() {
    let policies = |max| {
        let policy = Policy::new(Limit::per_hour(max)).with_concurrent(1);
        [("export", policy)]
    };
    let limiter = RateLimiter::builder().policies(policies(100));
    let limiter = limiter.build().unwrap();
    let rule = Rule::in_flight("replaced", 1)
        .with_policy("export")
        .with_wait(Duration::from_secs(60));
    let permit = limiter.enter(&rule, &alice()).await.unwrap();
    limiter.set_policies(policies(200)).unwrap();
    let waiting = tokio::spawn({
        let (limiter, rule) = (limiter.clone(), rule.clone());
        async move { limiter.enter(&rule, &alice()).await }
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = Instant::now();
    drop(permit);
    assert!(waiting.await.unwrap().is_ok());
    assert!(
        left.elapsed() <= Duration::from_millis(2),
        "{:?}",
        left.elapsed()
    );
}

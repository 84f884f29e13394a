//! Stacks that no store decides in one step: they are looked at, reserved and committed, even if
//! the caller, a store or the runtime goes away meanwhile.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ratelimit_runtime::store::{
    Answer, Capabilities, Feature, Request, Settled, StoreError, StoreErrorKind, Verdict,
};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, Policy, RateLimitError, RateLimiter, Rule,
    Source, Store, rate_limit,
};
use tokio::sync::watch;

use crate::Outcome;
use crate::support::layer::{Layer, forward};
use crate::support::settled;

const MAX: u64 = 5;
/// Long enough to ask a store on a busy machine.
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);

#[rate_limit(limiter = one, name = "first", window = "1h", max = MAX)]
#[rate_limit(limiter = other, name = "second", window = "1h", max = MAX)]
async fn both(one: &RateLimiter, other: &RateLimiter) -> Outcome {
    Ok(())
}

fn first() -> Rule {
    Rule::new("first", Limit::per_hour(MAX))
}

fn second() -> Rule {
    Rule::new("second", Limit::per_hour(MAX))
}

async fn left(limiter: &RateLimiter, rule: &Rule) -> u64 {
    let peeked = limiter.peek(rule, &Key::global()).await;
    peeked.unwrap().remaining()
}

/// The cost left in both limits.
async fn both_left(one: &RateLimiter, other: &RateLimiter) -> [u64; 2] {
    [left(one, &first()).await, left(other, &second()).await]
}

#[rate_limit(limiter = limiter, name = "first", window = "1h", max = MAX, wait = "1m")]
#[rate_limit(limiter = limiter, name = "of_plan", window = "1h", max = *quota, block = "1h")]
async fn by_plan(limiter: &RateLimiter, quota: &u64) -> Outcome {
    Ok(())
}

/// Neither the other limit nor the block notices the call.
#[tokio::test(start_paused = true)]
async fn a_limit_of_0_refuses_its_stack_at_once() {
    let limiter = RateLimiter::memory();
    for _ in 0..3 {
        let refused = by_plan(&limiter, &0).await.unwrap_err();
        let refusal = refused.decision().unwrap();
        assert_eq!((refusal.rule(), refusal.limit()), ("of_plan", 0));
        assert_eq!((refused.retry_after(), refusal.is_blocked()), (None, false));
    }
    assert_eq!(left(&limiter, &first()).await, MAX);
    by_plan(&limiter, &1).await.unwrap();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Peek,
    Acquire,
    Settle,
}

/// A layer whose answers about the rule `second` come when a test lets them: what they say has been
/// done before. It counts what is acquired of the rule `first`.
#[derive(Clone)]
struct Held {
    inner: Arc<MemoryStore>,
    operations: Arc<watch::Sender<HashSet<Operation>>>,
    /// Fails looks at `second` with this.
    failure: Option<StoreErrorKind>,
    acquired: Arc<AtomicU64>,
    /// `true` if peeks are answered at once.
    looks_at_once: bool,
}

impl Held {
    fn new() -> Self {
        Self {
            inner: Arc::new(MemoryStore::new()),
            operations: Arc::new(watch::Sender::new(HashSet::new())),
            failure: None,
            acquired: Arc::default(),
            looks_at_once: false,
        }
    }

    fn hold(&self, operation: Operation) {
        self.operations
            .send_modify(|held| _ = held.insert(operation));
    }

    fn let_all_pass(&self) {
        self.operations.send_modify(HashSet::clear);
    }

    fn limiter(&self, policy: OnUnavailable, timeout: Duration) -> RateLimiter {
        let builder = RateLimiter::builder().store(self.clone()).timeout(timeout);
        builder.on_unavailable(policy).build().unwrap()
    }

    fn later<'a, T: Send + Unpin + 'a>(
        &'a self,
        operation: Operation,
        request: Request<'a>,
        answer: Answer<'a, T>,
    ) -> Answer<'a, T> {
        Answer::later(async move {
            tokio::task::yield_now().await;
            let answered = answer.await;
            if is_second(&request) {
                let mut held = self.operations.subscribe();
                let _ = held.wait_for(|held| !held.contains(&operation)).await;
            }
            answered
        })
    }
}

fn is_second(request: &Request<'_>) -> bool {
    request.key().windows(6).any(|part| part == b"second")
}

impl Store for Held {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        if !is_second(&request) {
            self.acquired.fetch_add(1, Ordering::SeqCst);
        }
        // The memory decides as soon as it is called, an answer for later when it is polled.
        let acquired = Answer::later(async move { self.inner.acquire(request).await });
        self.later(Operation::Acquire, request, acquired)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        match self.failure.filter(|_| is_second(&request)) {
            Some(kind) => Answer::ready(Err(StoreError::new(kind, "a test made it fail"))),
            None if self.looks_at_once => self.inner.peek(request),
            None => self.later(Operation::Peek, request, self.inner.peek(request)),
        }
    }

    forward!(inner: reset);

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        let settled = async move { self.inner.settle(request, ticket, actual_cost).await };
        let settled = Answer::later(settled);
        self.later(Operation::Settle, request, settled)
    }
}

/// Polls a future once, and drops it.
async fn begun<T>(future: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = future => panic!("it is not over at once"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_stack_charged_as_a_whole() {
    for operation in [Operation::Peek, Operation::Acquire, Operation::Settle] {
        let store = Held::new();
        let limiter = store.limiter(OnUnavailable::Deny, LONG);
        store.hold(operation);
        begun(both(&limiter, &limiter)).await;
        assert!(
            limiter.settled_within(SHORT).await.is_err(),
            "{operation:?}: it goes on without its caller"
        );
        store.let_all_pass();
        settled(&limiter).await;
        assert_eq!(
            both_left(&limiter, &limiter).await,
            [MAX - 1; 2],
            "{operation:?}"
        );
    }
}

#[rate_limit(limiter = limiter, name = "third", window = "1h", max = MAX)]
#[rate_limit(limiter = limiter, name = "fourth", window = "1h", max = MAX)]
async fn others(limiter: &RateLimiter) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn callers_that_go_away_take_no_room_from_others() {
    let store = Held::new();
    let limiter = store.limiter(OnUnavailable::Deny, LONG);
    store.hold(Operation::Peek);
    for _ in 0..6_000 {
        begun(both(&limiter, &limiter)).await;
    }
    others(&limiter).await.unwrap();
    store.let_all_pass();
    settled(&limiter).await;
    let [first, second] = both_left(&limiter, &limiter).await;
    assert_eq!(first, second);
}

/// A charge answered by policy is given back, and so is the rest if the policy refuses.
#[tokio::test]
async fn a_charge_that_is_answered_late_is_released() {
    for (policy, charged) in [
        (OnUnavailable::Deny, 0),
        (OnUnavailable::Local, 1),
        (OnUnavailable::Allow, 1),
    ] {
        let store = Held::new();
        let limiter = store.limiter(policy, SHORT);
        store.hold(Operation::Acquire);
        assert_eq!(
            both(&limiter, &limiter).await.is_ok(),
            charged > 0,
            "{policy:?}"
        );
        assert!(limiter.settled_within(SHORT).await.is_err(), "{policy:?}");
        store.let_all_pass();
        settled(&limiter).await;
        let left = both_left(&limiter, &limiter).await;
        assert_eq!(left, [MAX - charged, MAX], "{policy:?}");
    }
}

/// A look that is late ends the time of the call: nothing is charged but by the policy.
#[tokio::test]
async fn no_part_is_charged_after_the_timeout() {
    for policy in [OnUnavailable::Deny, OnUnavailable::Local] {
        let store = Held::new();
        let limiter = store.limiter(policy, SHORT);
        store.hold(Operation::Peek);
        let is_admitted = both(&limiter, &limiter).await.is_ok();
        assert_eq!(is_admitted, policy == OnUnavailable::Local);
        store.let_all_pass();
        settled(&limiter).await;
        assert_eq!(both_left(&limiter, &limiter).await, [MAX; 2], "{policy:?}");
        assert_eq!(store.acquired.load(Ordering::SeqCst), 0, "{policy:?}");
    }
}

/// A charge that takes as long as the look would be late, and only be undone. Another part is
/// charged where its own limit is kept.
#[tokio::test(start_paused = true)]
async fn no_part_is_charged_where_less_time_is_left_than_looking_at_it_took() {
    let timeout = Duration::from_millis(100);
    for (look, charged) in [(45, true), (55, false)] {
        for policy in [OnUnavailable::Deny, OnUnavailable::Local] {
            let store = Held::new();
            let near = RateLimiter::builder().store(MemoryStore::new());
            let near = near.on_unavailable(OnUnavailable::Deny).build().unwrap();
            let far = store.limiter(policy, timeout);
            store.hold(Operation::Peek);
            let (outcome, ()) = tokio::join!(both(&near, &far), async {
                tokio::time::sleep(Duration::from_millis(look)).await;
                store.let_all_pass();
            });
            let is_admitted = charged || policy == OnUnavailable::Local;
            assert_eq!(outcome.is_ok(), is_admitted, "{look} ms, {policy:?}");
            settled(&near).await;
            settled(&far).await;
            let expected = [MAX - u64::from(is_admitted), MAX - u64::from(charged)];
            assert_eq!(
                both_left(&near, &far).await,
                expected,
                "{look} ms, {policy:?}"
            );
        }
    }
}

/// A caller whose own key is on a part of the store that is away must not reserve others' units.
#[tokio::test]
async fn a_part_that_its_policy_refuses_ends_the_call_before_another_is_charged() {
    for policy in [OnUnavailable::Deny, OnUnavailable::Local] {
        let store = Held {
            failure: Some(StoreErrorKind::Unavailable),
            ..Held::new()
        };
        let limiter = store.limiter(policy, LONG);
        let mut admitted = 0;
        for _ in 0..3 * MAX {
            admitted += u64::from(both(&limiter, &limiter).await.is_ok());
        }
        settled(&limiter).await;
        let expected = if policy == OnUnavailable::Deny {
            0
        } else {
            MAX
        };
        assert_eq!(admitted, expected);
        assert_eq!(
            store.acquired.load(Ordering::SeqCst),
            expected,
            "{policy:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn where_there_is_no_room_for_settlements_the_policy_answers() {
    const ROOM: u64 = 10_000;
    for policy in [OnUnavailable::Deny, OnUnavailable::Local] {
        let store = Held::new();
        let limiter = store.limiter(policy, LONG);
        store.hold(Operation::Settle);
        let many = Rule::new("second of many", Limit::per_hour(ROOM))
            .with_algorithm(Algorithm::TokenBucket);
        for _ in 0..ROOM {
            drop(limiter.reserve(&many, &Key::global()).await.unwrap());
        }
        match both(&limiter, &limiter).await {
            Ok(()) => assert_eq!(policy, OnUnavailable::Local),
            Err(RateLimitError::Unavailable(_)) => assert_eq!(policy, OnUnavailable::Deny),
            Err(error) => panic!("{error:?}"),
        }
        assert_eq!(both_left(&limiter, &limiter).await, [MAX; 2], "{policy:?}");
        store.let_all_pass();
        settled(&limiter).await;
        both(&limiter, &limiter).await.unwrap();
        settled(&limiter).await;
        assert_eq!(
            both_left(&limiter, &limiter).await,
            [MAX - 1; 2],
            "{policy:?}"
        );
    }
}

/// There is room for one settlement more, and the stack waits for two.
#[tokio::test(start_paused = true)]
async fn a_stack_that_waits_for_room_takes_none_from_other_settlements() {
    const ROOM: u64 = 10_000;
    let store = Held::new();
    let limiter = store.limiter(OnUnavailable::Deny, LONG);
    store.hold(Operation::Settle);
    let many =
        Rule::new("second of many", Limit::per_hour(ROOM)).with_algorithm(Algorithm::TokenBucket);
    let released = async || {
        let reserved = limiter.reserve(&many, &Key::global()).await.unwrap();
        reserved.release();
    };
    for _ in 1..ROOM {
        released().await;
    }
    let others = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        released().await;
        store.let_all_pass();
    };
    let (stack, ()) = tokio::join!(both(&limiter, &limiter), others);
    stack.unwrap();
    settled(&limiter).await;
    assert_eq!(left(&limiter, &many).await, ROOM);
}

/// Calls such as streams may go on for hours; settlements are short.
#[tokio::test(start_paused = true)]
async fn reservations_of_calls_that_go_on_take_no_room_for_settlements() {
    const CALLS: u64 = 5_001;
    let limiter = Held::new().limiter(OnUnavailable::Deny, LONG);
    let rules = ["streams", "tokens"]
        .map(|name| Rule::new(name, Limit::per_hour(CALLS)).with_algorithm(Algorithm::TokenBucket));
    let (key, mut open) = (Key::global(), Vec::new());
    for _ in 0..CALLS {
        let calls = rules.iter().map(|rule| (rule, &key));
        open.push(limiter.reserve_all(calls).await.unwrap());
    }
    both(&limiter, &limiter).await.unwrap();
    drop(open);
    settled(&limiter).await;
    for rule in &rules {
        assert_eq!(left(&limiter, rule).await, 0);
    }
}

#[rate_limit(limiter = limiter, name = "first", window = "1h", max = MAX)]
#[rate_limit(limiter = limiter, name = "second", policy = "plan")]
async fn by_policy(limiter: &RateLimiter) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_stack_ends_by_the_policies_that_it_began_with() {
    let store = Held::new();
    let limiter = store.limiter(OnUnavailable::Deny, LONG);
    let plan = |max| [("plan", Policy::new(Limit::per_hour(max)))];
    limiter.set_policies(plan(MAX)).unwrap();
    let _ = limiter.acquire(&second(), &Key::global()).await.unwrap();
    store.hold(Operation::Peek);
    let change = async {
        limiter.set_policies(plan(1)).unwrap();
        store.let_all_pass();
    };
    let (outcome, ()) = tokio::join!(by_policy(&limiter), change);
    outcome.unwrap();
    assert!(by_policy(&limiter).await.is_err());
    settled(&limiter).await;
    assert_eq!(both_left(&limiter, &limiter).await, [MAX - 1, MAX - 2]);
}

/// A store of another crate on which sliding windows have these features.
struct Foreign(MemoryStore, &'static [Feature]);

impl Foreign {
    fn limiter(features: &'static [Feature]) -> RateLimiter {
        RateLimiter::with_store(Self(MemoryStore::new(), features))
    }

    fn has(&self, feature: Feature) {
        assert!(self.1.contains(&feature), "it has no {feature:?}");
    }
}

impl Store for Foreign {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        if request.is_reservation() {
            self.has(Feature::Reserve);
        }
        self.0.acquire(request)
    }

    forward!(0: peek, reset);

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.has(Feature::Refund);
        self.0.refund(request, ticket)
    }

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        self.has(Feature::Reserve);
        self.0.settle(request, ticket, actual_cost)
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.has(Feature::Block);
        self.0.block(request, duration)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Algorithm::SlidingWindow, self.1)
    }
}

#[tokio::test]
async fn one_part_of_a_stack_may_be_on_a_store_that_gives_nothing_back() {
    const ALL: [&[Feature]; 3] = [&[], &[Feature::Refund], &[Feature::Reserve]];
    for (one, other) in ALL.iter().flat_map(|one| ALL.map(|other| (*one, other))) {
        let [one_limiter, other_limiter] = [one, other].map(Foreign::limiter);
        let outcome = both(&one_limiter, &other_limiter).await;
        if one.is_empty() && other.is_empty() {
            assert!(
                matches!(outcome, Err(RateLimitError::Misconfigured(_))),
                "{outcome:?}"
            );
            assert_eq!(both_left(&one_limiter, &other_limiter).await, [MAX; 2]);
            continue;
        }
        outcome.unwrap();
        assert_eq!(both_left(&one_limiter, &other_limiter).await, [MAX - 1; 2]);
        // Who is refused by either is charged by neither.
        for _ in 1..MAX {
            let _ = other_limiter
                .acquire(&second(), &Key::global())
                .await
                .unwrap();
        }
        both(&one_limiter, &other_limiter).await.unwrap_err();
        both(&other_limiter, &one_limiter).await.unwrap();
        let left = both_left(&one_limiter, &other_limiter).await;
        assert_eq!(left, [MAX - 1, 0], "{one:?}, {other:?}");
    }
}

#[rate_limit(limiter = foreign, name = "first", window = "1h", max = MAX)]
#[rate_limit(limiter = limiter, name = "permits", concurrent = 1)]
async fn with_permit(foreign: &RateLimiter, limiter: &RateLimiter) -> Outcome {
    Ok(())
}

/// The permits are another process's, so that this one has to ask.
#[tokio::test]
async fn a_call_without_a_permit_is_charged_nowhere() {
    for features in [&[] as &[Feature], &[Feature::Refund], &[Feature::Reserve]] {
        let memory = Arc::new(MemoryStore::new());
        let [here, elsewhere] = [(); 2].map(|()| RateLimiter::with_store(Arc::clone(&memory)));
        let foreign = Foreign::limiter(features);
        let permits = Rule::in_flight("permits", 1);
        let permit = elsewhere.enter(&permits, &Key::global()).await.unwrap();
        let refused = with_permit(&foreign, &here).await.unwrap_err();
        assert!(refused.decision().unwrap().is_in_flight_limit());
        assert_eq!(left(&foreign, &first()).await, MAX, "{features:?}");
        drop(permit);
        with_permit(&foreign, &here).await.unwrap();
        assert_eq!(left(&foreign, &first()).await, MAX - 1, "{features:?}");
    }
}

#[rate_limit(limiter = foreign, name = "first", window = "1h", max = MAX, block = "1m")]
#[rate_limit(limiter = limiter, name = "second", window = "1h", max = MAX)]
async fn blocking(foreign: &RateLimiter, limiter: &RateLimiter) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_store_of_another_crate_blocks_where_its_limit_alone_refuses() {
    const FEATURES: &[Feature] = &[Feature::Reserve, Feature::Block];
    let (foreign, limiter) = (Foreign::limiter(FEATURES), RateLimiter::memory());
    for _ in 0..MAX {
        let _ = foreign.acquire(&first(), &Key::global()).await.unwrap();
        let _ = limiter.acquire(&second(), &Key::global()).await.unwrap();
    }
    let is_blocked = async || {
        let error = blocking(&foreign, &limiter).await.unwrap_err();
        let refusal = error.decision().unwrap();
        assert_eq!(refusal.source(), Source::Store);
        assert!(refusal.reset_after() >= refusal.retry_after().unwrap());
        let peeked = foreign.peek(&first(), &Key::global()).await.unwrap();
        (refusal.is_blocked(), peeked.is_blocked())
    };
    assert_eq!(is_blocked().await, (false, false));
    assert!(limiter.reset(&second(), &Key::global()).await.unwrap());
    assert_eq!(is_blocked().await, (true, true));
    assert_eq!(left(&limiter, &second()).await, MAX);
}

/// Both parts refuse, for want of room on one key.
#[tokio::test]
async fn a_key_twice_in_a_stack_is_blocked_once_it_is_used_up() {
    let layered = RateLimiter::with_store(Layer(MemoryStore::new()));
    for limiter in [RateLimiter::memory(), layered] {
        let rule = Rule::new("twice", Limit::per_hour(2)).with_block(Duration::from_secs(3600));
        let key = Key::global();
        let twice = || limiter.acquire_all([(&rule, &key), (&rule, &key)]);
        assert!(twice().await.is_ok());
        let refusal = *twice().await.unwrap_err().decision().unwrap();
        assert!(refusal.is_blocked());
        assert!(limiter.peek(&rule, &key).await.unwrap().is_blocked());
    }
}

/// The store that says nothing might have refused the call, too.
#[tokio::test]
async fn a_store_of_another_crate_does_not_block_in_the_outage_of_another() {
    let foreign = Foreign::limiter(&[Feature::Reserve, Feature::Block]);
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .on_unavailable(OnUnavailable::Allow)
        .build()
        .unwrap();
    for _ in 0..MAX {
        let _ = foreign.acquire(&first(), &Key::global()).await.unwrap();
    }
    store.fail();
    blocking(&foreign, &limiter).await.unwrap_err();
    let peeked = foreign.peek(&first(), &Key::global()).await.unwrap();
    assert!(!peeked.is_blocked());
}

/// The output of a future that no runtime drives, and that nobody wakes.
fn without_runtime<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// Stores that answer at once need no runtime. Others cannot be waited for, and charge nothing.
#[test]
fn without_a_runtime_a_stack_is_decided_at_once_or_misconfigured() {
    let (one, other) = (RateLimiter::memory(), RateLimiter::memory());
    for admitted in (0..100).map(|call| call < MAX) {
        assert_eq!(without_runtime(both(&one, &other)).is_ok(), admitted);
        // Refusals have kept the thread for long.
        std::thread::sleep(Duration::from_millis(1));
    }
    for looks_at_once in [false, true] {
        let store = Held {
            looks_at_once,
            ..Held::new()
        };
        let limiter = store.limiter(OnUnavailable::Local, LONG);
        let outcome = without_runtime(both(&limiter, &limiter));
        assert!(
            matches!(outcome, Err(RateLimitError::Misconfigured(_))),
            "{outcome:?}"
        );
        let inner = RateLimiter::with_store(Arc::clone(&store.inner));
        assert_eq!(without_runtime(both_left(&inner, &inner)), [MAX; 2]);
    }
}

/// A caller that another runtime drives, or none, is answered though the task of its call is gone.
#[test]
fn a_call_ends_where_its_runtime_does() {
    let store = Held::new();
    let limiter = store.limiter(OnUnavailable::Deny, LONG);
    store.hold(Operation::Peek);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let outcome = handle.block_on(both(&limiter, &limiter));
        tell.send(outcome).unwrap();
    });
    // It is on its way.
    let is_asked = || store.operations.receiver_count() > 0;
    while !is_asked() {
        std::thread::sleep(Duration::from_millis(1));
    }
    runtime.shutdown_background();
    let outcome = told.recv_timeout(LONG / 4).unwrap();
    assert!(
        matches!(outcome, Err(RateLimitError::Unavailable(_))),
        "{outcome:?}"
    );
}

/// A part in shadow mode refuses nothing, whatever becomes of its question.
#[test]
fn a_call_in_shadow_mode_runs_where_its_runtime_ends() {
    let store = FaultyStore::new(MemoryStore::new());
    let builder = RateLimiter::builder().store(Layer(store.clone()));
    let limiter = builder.timeout(LONG).build().unwrap();
    store.hang();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let shadow = first().with_concurrent(1).with_shadow(true);
        let entered = handle.block_on(limiter.enter(&shadow, &Key::global()));
        tell.send(entered.map(|permit| permit.decision().source()))
            .unwrap();
    });
    while store.calls() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(SHORT / 4);
    runtime.shutdown_background();
    let source = told.recv_timeout(LONG / 4).unwrap();
    assert_eq!(source.unwrap(), Source::Nobody);
}

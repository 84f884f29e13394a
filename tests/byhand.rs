//! The limiter by hand: acquire, peek, reset, refund, block and unblock under `key!`, in memory and on Redis, through
//! prefixes and hashed keys; policies replaced while running; waiting.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, Policy, RateLimitError, RateLimiter, RateLimiterBuilder,
    RedisStore, Rule, Store, key, rate_limit,
};
use support::redis::shared;
use support::unique;
use tokio::task::JoinSet;
use tokio::time::Instant;

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::SlidingWindow,
    Algorithm::SlidingCounter,
    Algorithm::FixedWindow,
    Algorithm::TokenBucket,
    Algorithm::LeakyBucket,
];

const MINUTE: Duration = Duration::from_secs(60);

/// A limiter that never answers by itself: without its store a check fails, and with it the test.
fn strict() -> RateLimiterBuilder {
    RateLimiter::builder().timeout(Duration::from_secs(30)).on_unavailable(OnUnavailable::Deny)
}

fn in_memory(clock: &FakeClock) -> RateLimiterBuilder {
    strict().store(MemoryStore::new().with_clock(clock.clone()))
}

fn on_redis(clock: &FakeClock, prefix: &str) -> RateLimiterBuilder {
    strict().store(RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone())).prefix(prefix)
}

/// In memory and on Redis, with readable keys and with hashed ones.
fn everywhere(clock: &FakeClock) -> Vec<(&'static str, RateLimiter)> {
    let (plain, hashed) = (unique("byhand"), unique("byhand"));
    let limiters = [
        ("memory", in_memory(clock)),
        ("memory, prefix and hashed keys", in_memory(clock).prefix("shop:prod").hash_keys("secret")),
        ("Redis", on_redis(clock, &plain)),
        ("Redis, hashed keys", on_redis(clock, &hashed).hash_keys("secret")),
    ];
    limiters.into_iter().map(|(name, builder)| (name, builder.build().unwrap())).collect()
}

fn alice() -> Key {
    let (tenant, email) = ("acme", "alice@example.com");
    key!("<tenant>/<email>")
}

fn bob() -> Key {
    let (tenant, email) = ("acme", "bob@example.com");
    key!("<tenant>/<email>")
}

#[tokio::test]
async fn every_order_does_what_it_says_under_every_algorithm() {
    let clock = FakeClock::new();
    for (place, limiter) in everywhere(&clock) {
        for algorithm in ALGORITHMS {
            for rule in [
                Rule::named(format!("{algorithm:?}"), Limit::per_minute(3)).with_algorithm(algorithm),
                Rule::named(format!("weighted {algorithm:?}"), Limit::per_minute(3))
                    .with_algorithm(algorithm)
                    .weighted(),
            ] {
                every_order(&limiter, &rule, &format!("{place}, {algorithm:?}, {}", rule.name())).await;
            }
        }
    }
}

async fn every_order(limiter: &RateLimiter, rule: &Rule, context: &str) {
    let remaining = || async { limiter.peek(rule, &alice()).await.unwrap().remaining() };
    assert_eq!(remaining().await, 3, "{context}");
    assert!(!limiter.reset(rule, &alice()).await.unwrap(), "{context}");

    let first = limiter.acquire(rule, &alice()).await.unwrap();
    assert_eq!((first.remaining(), first.limit(), first.rule()), (2, 3, rule.name()), "{context}");
    let _ = limiter.acquire(rule, &alice()).await.unwrap();
    assert!(limiter.refund(rule, &alice(), &first).await.unwrap(), "{context}");
    assert_eq!(remaining().await, 2, "{context}");

    limiter.block(rule, &alice(), MINUTE * 10).await.unwrap();
    let banned = limiter.peek(rule, &alice()).await.unwrap();
    assert!(
        !banned.is_allowed() && banned.is_blocked() && banned.retry_after() == MINUTE * 10,
        "{context}: {banned:?}"
    );
    let refused = limiter.acquire(rule, &alice()).await.unwrap_err();
    assert_eq!(refused.retry_after(), Some(MINUTE * 10), "{context}");
    assert_eq!(limiter.peek(rule, &bob()).await.unwrap().remaining(), 3, "{context}: nobody else is banned");
    assert!(limiter.unblock(rule, &alice()).await.unwrap(), "{context}");
    assert!(!limiter.unblock(rule, &alice()).await.unwrap(), "{context}");
    assert_eq!(remaining().await, 2, "{context}");

    assert!(limiter.reset(rule, &alice()).await.unwrap(), "{context}");
    assert!(!limiter.refund(rule, &alice(), &first).await.unwrap(), "{context}: a reset takes admissions along");
    assert_eq!(remaining().await, 3, "{context}");
}

#[tokio::test]
async fn a_ban_is_longer_than_nothing_and_no_longer_than_a_year() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("ban", Limit::per_minute(3));
    for wrong in [Duration::ZERO, Duration::from_secs(367 * 86_400)] {
        let error = limiter.block(&rule, &alice(), wrong).await.unwrap_err();
        assert!(matches!(error, RateLimitError::Misconfigured(_)), "{error:?}");
    }
    assert!(limiter.peek(&rule, &alice()).await.unwrap().is_allowed());
}

#[tokio::test]
async fn what_one_process_orders_others_see_at_once() {
    let (clock, prefix) = (FakeClock::new(), unique("two"));
    let rule = Rule::new("shared", Limit::per_minute(2));
    let limiter = || on_redis(&clock, &prefix).hash_keys("secret").build().unwrap();
    let (here, there) = (limiter(), limiter());
    let other_secret = on_redis(&clock, &prefix).hash_keys("another secret").build().unwrap();
    let other_prefix = on_redis(&clock, &unique("two")).hash_keys("secret").build().unwrap();

    let first = here.acquire(&rule, &alice()).await.unwrap();
    assert_eq!(there.peek(&rule, &alice()).await.unwrap().remaining(), 1);
    assert!(there.refund(&rule, &alice(), &first).await.unwrap());
    assert_eq!(here.peek(&rule, &alice()).await.unwrap().remaining(), 2);
    here.block(&rule, &alice(), MINUTE).await.unwrap();
    assert!(there.peek(&rule, &alice()).await.unwrap().is_blocked());
    for apart in [&other_secret, &other_prefix] {
        assert!(apart.peek(&rule, &alice()).await.unwrap().is_allowed());
        assert!(!apart.unblock(&rule, &alice()).await.unwrap());
    }
    assert!(there.unblock(&rule, &alice()).await.unwrap());
    assert!(here.acquire(&rule, &alice()).await.is_ok());
    assert!(there.reset(&rule, &alice()).await.unwrap());
    assert_eq!(here.peek(&rule, &alice()).await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn key_reaches_the_bucket_of_an_attribute() {
    #[rate_limit(name = "by hand: send", key = "<tenant>/<email>", window = "60s", max = 2)]
    async fn send(tenant: &str, email: &str) -> Result<(), RateLimitError> {
        Ok(())
    }
    let rule = Rule::new("by hand: send", Limit::per_minute(2));
    let clock = FakeClock::new();
    for (place, limiter) in everywhere(&clock) {
        limiter
            .scope(async {
                send("acme", "alice@example.com").await.unwrap();
                assert_eq!(limiter.peek(&rule, &alice()).await.unwrap().remaining(), 1, "{place}");
                limiter.block(&rule, &alice(), MINUTE).await.unwrap();
                assert!(send("acme", "alice@example.com").await.is_err(), "{place}");
                assert!(send("acme", "bob@example.com").await.is_ok(), "{place}");
                assert!(limiter.reset(&rule, &alice()).await.unwrap(), "{place}");
                assert!(send("acme", "alice@example.com").await.is_ok(), "{place}");
            })
            .await;
    }
}

#[tokio::test]
async fn a_cost_above_the_limit_is_its_own_error_and_never_try_again() {
    let clock = FakeClock::new();
    for (place, limiter) in everywhere(&clock) {
        for algorithm in ALGORITHMS {
            let rule = Rule::named(format!("heavy {algorithm:?}"), Limit::per_minute(3)).and(Limit::per_hour(5));
            let rule = rule.with_algorithm(algorithm).weighted();
            let error = limiter.acquire(&rule.with_cost(4), &alice()).await.unwrap_err();
            assert!(matches!(error, RateLimitError::CostExceedsLimit { cost: 4, limit: 3, .. }), "{place}: {error:?}");
            assert_eq!(error.retry_after(), None);
            let nothing = Rule::named(format!("none {algorithm:?}"), Limit::per_minute(0)).with_algorithm(algorithm);
            let error = limiter.acquire(&nothing, &alice()).await.unwrap_err();
            assert!(matches!(error, RateLimitError::CostExceedsLimit { cost: 1, limit: 0, .. }), "{place}: {error:?}");
            assert_eq!(limiter.peek(&rule, &alice()).await.unwrap().remaining(), 3, "{place}: nothing was charged");
        }
    }
}

#[tokio::test]
async fn a_refusal_of_a_shadow_bans_nobody() {
    let clock = FakeClock::new();
    for (place, limiter) in everywhere(&clock) {
        let shadow = Rule::new("shadow", Limit::per_minute(1)).with_block(MINUTE * 10).with_shadow(true);
        let binding = Rule::new("shadow", Limit::per_minute(1)).with_block(MINUTE * 10);
        for _ in 0..3 {
            let _ = limiter.acquire(&shadow, &alice()).await.unwrap();
        }
        assert!(!limiter.peek(&binding, &alice()).await.unwrap().is_blocked(), "{place}");
        let refused = limiter.acquire(&binding, &alice()).await.unwrap_err();
        assert!(refused.decision().unwrap().is_blocked(), "{place}");
    }
}

// Policies.

#[tokio::test]
async fn policies_are_replaced_while_running() {
    let clock = FakeClock::new();
    let rule = Rule::new("policed", Limit::per_minute(1)).with_policy("login");
    for (place, limiter) in everywhere(&clock) {
        let unknown = limiter.acquire(&rule, &alice()).await.unwrap_err();
        assert!(matches!(unknown, RateLimitError::Misconfigured(_)), "{place}: {unknown:?}");
        assert!(unknown.to_string().contains("no policy `login`"), "{place}: {unknown}");
        assert!(limiter.peek(&rule, &alice()).await.is_err(), "{place}: nor does peek make one up");

        limiter.set_policies([("login", Policy::new(Limit::per_minute(2)))]).unwrap();
        for _ in 0..2 {
            assert!(limiter.acquire(&rule, &alice()).await.is_ok(), "{place}");
        }
        assert!(limiter.acquire(&rule, &alice()).await.is_err(), "{place}");

        // Another `max` goes on with what was counted.
        limiter.set_policies([("login", Policy::new(Limit::per_minute(3)))]).unwrap();
        assert_eq!(limiter.acquire(&rule, &alice()).await.unwrap().remaining(), 0, "{place}");

        // Another algorithm, or another window, starts afresh.
        let fixed = Policy::new(Limit::per_minute(3)).with_algorithm(Algorithm::FixedWindow).with_block(MINUTE * 10);
        limiter.set_policies([("login", fixed)]).unwrap();
        for left in [2, 1, 0] {
            assert_eq!(limiter.acquire(&rule, &alice()).await.unwrap().remaining(), left, "{place}");
        }
        let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
        assert!(refused.decision().unwrap().is_blocked(), "{place}: the policy's ban");

        let two = Policy::new(Limit::per_hour(100)).and(Limit::new(1, Duration::from_secs(5)));
        limiter.set_policies([("login", two)]).unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_ok(), "{place}");
        let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
        let decision = refused.decision().unwrap();
        assert_eq!((decision.limit_index(), decision.limit()), (1, 1), "{place}");

        // What cannot be used changes nothing.
        let many = (0..20).fold(Policy::new(Limit::per_hour(1)), |policy, _| policy.and(Limit::per_hour(1)));
        assert!(limiter.set_policies([("login", many)]).is_err(), "{place}");
        assert!(limiter.peek(&rule, &alice()).await.is_ok(), "{place}");
        limiter.set_policies(Vec::<(String, Policy)>::new()).unwrap();
        assert!(limiter.acquire(&rule, &alice()).await.is_err(), "{place}: a policy taken away is unknown again");
    }
}

// Waiting.

/// Counts what the store is asked.
struct Counting {
    inner: MemoryStore,
    calls: Arc<AtomicU64>,
}

impl Store for Counting {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.acquire(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.inner.reset(request)
    }
}

fn counting() -> (RateLimiter, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let store = Counting { inner: MemoryStore::new(), calls: Arc::clone(&calls) };
    (strict().store(store).build().unwrap(), calls)
}

const SECOND: Duration = Duration::from_secs(1);

fn patient(max: u64, window: Duration, patience: Duration) -> Rule {
    Rule::new("patient", Limit::new(max, window)).with_wait(patience)
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_served_in_the_order_of_coming() {
    let (limiter, _) = counting();
    let rule = Arc::new(patient(1, SECOND, SECOND * 3600));
    let start = Instant::now();
    let mut waiting = JoinSet::new();
    for nth in 0..20_u64 {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        waiting.spawn(async move {
            let _ = limiter.acquire(&rule, &alice()).await.unwrap();
            (nth, start.elapsed())
        });
        tokio::task::yield_now().await;
    }
    let mut served = waiting.join_all().await;
    served.sort_by_key(|(_, at)| *at);
    for (place, (nth, at)) in served.into_iter().enumerate() {
        assert_eq!(nth, place as u64);
        // tokio's timer has milliseconds.
        let due = SECOND * u32::try_from(place).unwrap();
        assert!(at >= due && at <= due + Duration::from_millis(2) * u32::try_from(place).unwrap(), "{nth} at {at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_promised() {
    let (limiter, _) = counting();
    let rule = patient(1, SECOND * 10, SECOND * 2);
    assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    let asked = Instant::now();
    let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
    assert_eq!(asked.elapsed(), Duration::ZERO, "a wait that cannot succeed is not begun");
    assert!(refused.retry_after().unwrap() > SECOND * 2);

    // In line behind somebody who has more patience, it ends all the same.
    let long = Arc::new(patient(1, SECOND * 10, SECOND * 60));
    let ahead = tokio::spawn({
        let (limiter, long) = (limiter.clone(), Arc::clone(&long));
        async move { limiter.acquire(&long, &alice()).await.map(drop) }
    });
    tokio::task::yield_now().await;
    let asked = Instant::now();
    assert!(limiter.acquire(&rule, &alice()).await.is_err());
    assert!(asked.elapsed() <= SECOND * 2 + Duration::from_millis(2), "{:?}", asked.elapsed());
    ahead.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_who_wait_are_no_herd() {
    let (limiter, calls) = counting();
    let rule = Arc::new(patient(10, SECOND, SECOND * 3600));
    let mut waiting = JoinSet::new();
    for _ in 0..1_000 {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        waiting.spawn(async move { limiter.acquire(&rule, &alice()).await.is_ok() });
    }
    assert!(waiting.join_all().await.into_iter().all(|passed| passed));
    // One admission for each; each refusal was waited for by the first in line alone. All who asked before the line
    // was there asked once more.
    let asked = calls.load(Ordering::SeqCst);
    assert!(asked <= 1_000 + 1_000 / 10 + 20, "{asked} questions for 1,000 calls");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_leaves_its_place_and_uses_nothing() {
    let (limiter, _) = counting();
    let rule = Arc::new(patient(1, SECOND * 10, SECOND * 3600));
    assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    let wait = || {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        tokio::spawn(async move { limiter.acquire(&rule, &alice()).await.map(drop) })
    };
    let (first, second, third) = (wait(), wait(), wait());
    tokio::time::sleep(SECOND).await;
    // The one that is asking, and one that stands in line.
    first.abort();
    second.abort();
    let start = Instant::now();
    third.await.unwrap().unwrap();
    assert!(start.elapsed() <= SECOND * 9 + Duration::from_millis(5), "{:?}", start.elapsed());
    tokio::time::sleep(SECOND * 10).await;
    assert!(limiter.acquire(&rule, &alice()).await.is_ok(), "no slot was lost to those who left");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_waiters_is_bounded() {
    let (limiter, _) = counting();
    let rule = Arc::new(patient(1, SECOND * 3600, SECOND * 7200));
    assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    let mut waiting = JoinSet::new();
    for _ in 0..10_100_u64 {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        waiting.spawn(async move { limiter.acquire(&rule, &alice()).await.is_ok() });
    }
    let start = Instant::now();
    let mut refused = 0;
    for _ in 0..100 {
        refused += u64::from(!waiting.join_next().await.unwrap().unwrap());
    }
    assert_eq!((refused, start.elapsed()), (100, Duration::ZERO), "those beyond 10,000 are refused at once");
    assert_eq!(waiting.len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn different_keys_do_not_wait_for_each_other() {
    let (limiter, _) = counting();
    let rule = Arc::new(patient(1, SECOND * 10, SECOND * 60));
    assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    let waiting = tokio::spawn({
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        async move { limiter.acquire(&rule, &alice()).await.map(drop) }
    });
    tokio::task::yield_now().await;
    let asked = Instant::now();
    assert!(limiter.acquire(&rule, &bob()).await.is_ok());
    assert_eq!(asked.elapsed(), Duration::ZERO);
    waiting.await.unwrap().unwrap();
}

// Stacked checks.

struct Two {
    wide: RateLimiter,
    narrow: RateLimiter,
}

#[rate_limit(name = "stack: wide", key = "<id>", window = "60s", max = 5, limiter = two.wide)]
#[rate_limit(name = "stack: narrow", key = "<id>", window = "60s", max = 1, limiter = two.narrow)]
async fn stacked(two: &Two, id: u64) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn what_one_limiter_refuses_the_other_gives_back() {
    let rule = Rule::new("stack: wide", Limit::per_minute(5));
    let (clock, prefix) = (FakeClock::new(), unique("stack"));
    for wide in [in_memory(&clock).build().unwrap(), on_redis(&clock, &prefix).build().unwrap()] {
        let two = Two { wide, narrow: in_memory(&clock).build().unwrap() };
        assert!(stacked(&two, 7).await.is_ok());
        for _ in 0..8 {
            let refused = stacked(&two, 7).await.unwrap_err();
            assert_eq!(refused.decision().unwrap().rule(), "stack: narrow");
        }
        // Nobody waits for what is given back; it arrives all the same.
        let id = 7_u64;
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let left = two.wide.peek(&rule, &key!("<id>")).await.unwrap().remaining();
            if left == 4 {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{left} left of 5 after one admitted call");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

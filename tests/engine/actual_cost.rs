//! Costs that are known afterwards: what becomes of the estimate, however a call ends.

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use ratelimit_runtime::observe::collect;
use ratelimit_runtime::store::{Answer, Capabilities, Feature, Request, Settled, StoreError, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, Store, rate_limit,
};

/// The rule of [`complete`], by hand.
static TOKENS: Rule = Rule::new("tokens", Limit::per_minute(100));

/// How a call of [`complete`] ends.
#[derive(Clone, Copy)]
enum Ends {
    With(u64),
    Fails,
    Never,
    Panics,
}

#[rate_limit(
    limiter = limiter, name = "tokens", key = "<user>", window = "60s", max = 100,
    cost = estimate, actual_cost = |out| out.as_ref().map_or(0, |tokens| *tokens),
)]
async fn complete(limiter: &RateLimiter, user: &str, estimate: u64, ends: Ends) -> Result<u64, RateLimitError> {
    match ends {
        Ends::With(tokens) => ready(Ok(tokens)).await,
        Ends::Fails => Err(RateLimitError::Unavailable(StoreError::unavailable("no model"))),
        Ends::Never => pending().await,
        Ends::Panics => panic!("the body has a defect"),
    }
}

async fn left(limiter: &RateLimiter, user: &str) -> u64 {
    limiter.peek(&TOKENS, &Key::of(user)).await.unwrap().remaining()
}

#[tokio::test]
async fn the_result_says_what_a_call_did_cost() {
    let limiter = RateLimiter::memory();
    assert!(complete(&limiter, "less", 30, Ends::With(10)).await.is_ok());
    assert_eq!(left(&limiter, "less").await, 90);
    assert!(complete(&limiter, "more", 30, Ends::With(70)).await.is_ok());
    assert_eq!(left(&limiter, "more").await, 30);
    assert!(complete(&limiter, "failed", 30, Ends::Fails).await.is_err());
    assert_eq!(left(&limiter, "failed").await, 100, "the closure says that a failure costs nothing");
    assert!(complete(&limiter, "nothing", 0, Ends::With(40)).await.is_ok());
    assert_eq!(left(&limiter, "nothing").await, 60, "an estimate of 0 is one of 1");
}

#[tokio::test]
async fn a_call_that_is_dropped_or_panics_is_charged_the_estimate() {
    let limiter = RateLimiter::memory();
    assert!(complete(&limiter, "dropped", 30, Ends::Never).now_or_never().is_none());
    assert_eq!(left(&limiter, "dropped").await, 70);
    let panicking = tokio::spawn({
        let limiter = limiter.clone();
        async move { complete(&limiter, "panicked", 30, Ends::Panics).await }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(left(&limiter, "panicked").await, 70);
}

#[tokio::test]
async fn an_estimate_that_no_window_admits_is_told() {
    let limiter = RateLimiter::memory();
    let error = complete(&limiter, "a", 101, Ends::With(1)).await.unwrap_err();
    assert!(matches!(error, RateLimitError::CostExceedsLimit { cost: 101, limit: 100, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn by_hand_a_reservation_is_committed_or_released_once() {
    let limiter = RateLimiter::memory();
    let (rule, key) = (TOKENS.with_cost(40), Key::of("a"));
    let reservation = limiter.reserve(&rule, &key).await.unwrap();
    assert_eq!((reservation.decision().remaining(), left(&limiter, "a").await), (60, 60));
    reservation.commit(15);
    assert_eq!(left(&limiter, "a").await, 85);
    limiter.reserve(&rule, &key).await.unwrap().release();
    assert_eq!(left(&limiter, "a").await, 85);
    drop(limiter.reserve(&rule, &key).await.unwrap());
    assert_eq!(left(&limiter, "a").await, 45, "one that is dropped costs what was estimated");
    assert!(matches!(limiter.reserve(&TOKENS.with_cost(46), &key).await, Err(RateLimitError::Exceeded(_))));

    let late = limiter.reserve(&TOKENS.with_cost(5), &key).await.unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(left(&limiter, "a").await, 100);
    late.commit(30);
    assert_eq!(left(&limiter, "a").await, 70, "a long call is not free");
}

#[rate_limit(limiter = limiter, name = "minute", window = "60s", max = 100, cost = 10, actual_cost = |n| *n.as_ref().unwrap_or(&0))]
#[rate_limit(limiter = limiter, name = "failures", window = "1h", max = 2, count = "err")]
#[rate_limit(limiter = limiter, name = "calls", window = "1h", max = 3)]
#[rate_limit(limiter = limiter, name = "seen", window = "60s", max = 5, cost = 5, actual_cost = tokens, shadow)]
#[rate_limit(limiter = limiter, name = "guests", window = "60s", max = 5, cost = 5, actual_cost = tokens, when = guest)]
async fn stacked(limiter: &RateLimiter, guest: bool, tokens_used: u64) -> Result<u64, RateLimitError> {
    ready(Ok(tokens_used)).await
}

#[allow(clippy::ref_option_ref, reason = "what the attribute hands on")]
fn tokens(outcome: &Result<u64, RateLimitError>) -> u64 {
    *outcome.as_ref().unwrap_or(&0)
}

#[tokio::test]
async fn in_a_stack_each_limit_gets_what_it_asks_for() {
    let limiter = RateLimiter::memory();
    assert!(stacked(&limiter, false, 4).await.is_ok());
    assert!(stacked(&limiter, true, 3).await.is_ok());
    let left = async |name: &'static str, limit: Limit| {
        limiter.peek(&Rule::new(name, limit), &Key::global()).await.unwrap().remaining()
    };
    assert_eq!(left("minute", Limit::per_minute(100)).await, 93);
    assert_eq!(left("failures", Limit::per_hour(2)).await, 2);
    assert_eq!(left("calls", Limit::per_hour(3)).await, 1);
    assert_eq!(left("seen", Limit::per_minute(5)).await, 1, "a call that would have been refused reserves nothing");
    assert_eq!(left("guests", Limit::per_minute(5)).await, 2);
}

/// The header fields and the log tell of the estimate: what it was is known when they are written.
#[tokio::test]
async fn the_decision_is_that_on_the_estimate() {
    let limiter = RateLimiter::memory();
    let (outcome, collected) = collect(complete(&limiter, "a", 30, Ends::With(70))).await;
    assert!(outcome.is_ok());
    let remaining: Vec<_> = collected.iter().map(|observation| observation.decision().remaining()).collect();
    assert_eq!(remaining, [70]);
}

/// A store whose answers come later, and, `loses` of them, never: what they answer was done.
#[derive(Clone, Default)]
struct Remote {
    inner: Arc<MemoryStore>,
    loses: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
}

impl Store for Remote {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move { self.inner.acquire(request).await })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move { self.inner.peek(request).await })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move { self.inner.reset(request).await })
    }

    fn settle<'a>(&'a self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, Settled> {
        Answer::later(async move {
            let committed = self.inner.settle(request, ticket, actual_cost).await;
            self.commits.fetch_add(1, Ordering::SeqCst);
            let fewer = |left: u64| left.checked_sub(1);
            match self.loses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer) {
                Ok(_) => Err(StoreError::unavailable("the connection has ended").lost()),
                Err(_) => committed,
            }
        })
    }
}

/// Lets `commits` happen, and no more.
async fn committed(store: &Remote, commits: u64) {
    for _ in 0..400 {
        if store.commits.load(Ordering::SeqCst) >= commits {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(store.commits.load(Ordering::SeqCst), commits);
}

/// In a log nothing is charged twice by that; a sum would be.
#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_was_lost_is_sent_again_only_where_that_does_nothing() {
    let key = Key::of("a");
    for (algorithm, commits) in [(Algorithm::SlidingWindow, 3), (Algorithm::TokenBucket, 1)] {
        let store = Remote::default();
        let limiter = RateLimiter::with_store(store.clone());
        let rule = Rule::new("tokens", Limit::per_hour(100)).with_algorithm(algorithm).with_cost(10);
        store.loses.store(2, Ordering::SeqCst);
        limiter.reserve(&rule, &key).await.unwrap().commit(30);
        committed(&store, commits).await;
        assert_eq!(limiter.peek(&rule, &key).await.unwrap().remaining(), 70, "{algorithm}");
    }
}

/// Nothing is known any more of a reservation that has left: what it was is charged each time.
#[tokio::test]
async fn a_commit_that_is_late_is_sent_once() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("tokens", Limit::new(100, Duration::from_millis(100))).with_cost(10);
    let reservation = limiter.reserve(&rule, &Key::of("a")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    store.loses.store(1, Ordering::SeqCst);
    reservation.commit(30);
    committed(&store, 1).await;
}

#[tokio::test]
async fn a_store_that_does_not_declare_it_is_a_mistake() {
    struct Counting(MemoryStore);

    impl Store for Counting {
        fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
            self.0.acquire(request)
        }

        fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
            self.0.peek(request)
        }

        fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
            self.0.reset(request)
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities::all().without(Algorithm::SlidingWindow, Feature::ActualCost)
        }
    }

    let limiter = RateLimiter::with_store(Counting(MemoryStore::new()));
    for error in [
        complete(&limiter, "a", 1, Ends::With(1)).await.unwrap_err(),
        limiter.reserve(&TOKENS, &Key::of("a")).await.unwrap_err(),
    ] {
        assert!(matches!(error, RateLimitError::Misconfigured(_)), "{error}");
        assert!(error.to_string().contains("`actual_cost`"), "{error}");
    }
    assert_eq!(left(&limiter, "a").await, 100, "nothing was charged");
}

#[tokio::test]
async fn the_fallback_keeps_estimates_and_costs_as_the_store_does() {
    let faults = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::builder().store(faults.clone()).on_unavailable(OnUnavailable::Local).build().unwrap();
    assert!(complete(&limiter, "a", 30, Ends::With(70)).await.is_ok());
    faults.fail();
    assert!(complete(&limiter, "a", 30, Ends::With(80)).await.is_ok());
    let during = limiter.peek(&TOKENS, &Key::of("a")).await.unwrap();
    assert_eq!((during.is_degraded(), during.remaining()), (true, 20));
    faults.heal();
    assert_eq!(left(&limiter, "a").await, 30);
}

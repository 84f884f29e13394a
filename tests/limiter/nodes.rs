//! Stacked limits whose keys live on different servers, as those of a cluster do: never admitted
//! without being charged everywhere, given back when one of them refuses, and expired where no
//! process is left to give back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Request, Settled, Store, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, rate_limit};
use tokio::task::JoinSet;

/// Two servers: rules whose key holds `@right` live on the right one.
#[derive(Clone)]
struct Nodes {
    left: FaultyStore<MemoryStore>,
    right: FaultyStore<MemoryStore>,
}

impl Nodes {
    fn of(&self, request: &Request<'_>) -> &FaultyStore<MemoryStore> {
        if request.key().windows(6).any(|part| part == b"@right") { &self.right } else { &self.left }
    }
}

impl Store for Nodes {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move {
            tokio::task::yield_now().await;
            self.of(&request).acquire(request).await
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.of(&request).peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.of(&request).reset(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.of(&request).refund(request, ticket)
    }

    fn settle<'a>(&'a self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, Settled> {
        self.of(&request).settle(request, ticket, actual_cost)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

static LEFT: Rule = Rule::new("login@left", Limit::per_hour(5));
static RIGHT: Rule = Rule::new("login@right", Limit::per_hour(2));

#[rate_limit(key = "<email>", window = "1h", max = 5, name = "login@left")]
#[rate_limit(key = "<ip>", window = "1h", max = 2, name = "login@right")]
async fn login(email: &str, ip: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<ip>", window = "1h", max = 2, name = "login@right")]
#[rate_limit(key = "<email>", window = "1h", max = 5, name = "login@left")]
async fn login_in_opposite_order(email: &str, ip: &str) -> Result<(), RateLimitError> {
    Ok(())
}

struct Bench {
    nodes: Nodes,
    limiter: RateLimiter,
}

impl Bench {
    fn new() -> Self {
        let [left, right] = [(); 2].map(|()| FaultyStore::new(MemoryStore::new()));
        let nodes = Nodes { left, right };
        let builder = RateLimiter::builder().store(nodes.clone()).on_unavailable(OnUnavailable::Deny);
        Self { nodes, limiter: builder.build().unwrap() }
    }

    async fn login(&self, email: &str, ip: &str) -> Result<(), RateLimitError> {
        self.limiter.scope(login(email, ip)).await
    }

    async fn left_of(&self, rule: &Rule, key: &str) -> u64 {
        self.limiter.peek(rule, &Key::of(key)).await.unwrap().remaining()
    }

    /// Giving back happens after the answer.
    async fn eventually_left(&self, rule: &Rule, key: &str, expected: u64) {
        let given_back = async {
            while self.left_of(rule, key).await != expected {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(5), given_back).await;
        assert!(in_time.is_ok(), "{} is left, not {expected}", self.left_of(rule, key).await);
    }
}

#[tokio::test]
async fn a_refusal_by_one_server_is_given_back_on_the_other() {
    let bench = Bench::new();
    assert!(bench.login("a", "1").await.is_ok() && bench.login("a", "1").await.is_ok());
    for _ in 0..3 {
        let refused = bench.login("a", "1").await.unwrap_err();
        assert_eq!(refused.decision().unwrap().rule(), "login@right");
        bench.eventually_left(&LEFT, "a", 3).await;
    }
    assert!(bench.login("a", "2").await.is_ok());
    assert_eq!(bench.left_of(&LEFT, "a").await, 2);
}

#[tokio::test(start_paused = true)]
async fn the_longest_wait_of_all_servers_is_named() {
    let bench = Bench::new();
    for ip in ["2", "3", "4", "1", "1"] {
        assert!(bench.login("a", ip).await.is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // Both refuse; the left one is asked first, and frees its slot earlier.
    let refused = bench.login("a", "1").await.unwrap_err();
    assert_eq!(refused.retry_after(), bench.limiter.peek(&RIGHT, &Key::of("1")).await.unwrap().retry_after());
    assert!(refused.retry_after() > bench.limiter.peek(&LEFT, &Key::of("a")).await.unwrap().retry_after());
}

#[tokio::test]
async fn a_server_that_fails_leaves_nothing_charged_on_the_other() {
    let bench = Bench::new();
    for fault in [StoreErrorKind::Unavailable, StoreErrorKind::Full] {
        bench.nodes.right.fail_with(fault);
        let refused = bench.login("b", "1").await.unwrap_err();
        assert!(matches!(refused, RateLimitError::Unavailable(_)), "{refused:?}");
        bench.nodes.right.heal();
        bench.eventually_left(&LEFT, "b", 5).await;
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_in_between_is_given_back() {
    let bench = Bench::new();
    bench.nodes.right.hang();
    let gave_up = tokio::time::timeout(Duration::from_millis(50), bench.login("c", "1")).await;
    assert!(gave_up.is_err());
    bench.nodes.right.heal();
    bench.eventually_left(&LEFT, "c", 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stacks_in_opposite_order_admit_no_more_than_either_limit_and_no_less() {
    let bench = Bench::new();
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        tasks.spawn(bench.limiter.scope(login("d", "1")));
        tasks.spawn(bench.limiter.scope(login_in_opposite_order("d", "1")));
    }
    let admitted = tasks.join_all().await.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(admitted, 2);
    bench.eventually_left(&LEFT, "d", 3).await;
}

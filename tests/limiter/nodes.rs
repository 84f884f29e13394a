//! Stacked limits whose keys live on different servers, as those of a cluster do: never admitted
//! without being charged everywhere, given back when one of them refuses, and expired where no
//! process is left to give back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::support::redis::RedisServer;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Answer, Request, Settled, Store, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RedisStore, Rule, rate_limit};
use tokio::task::JoinSet;

/// Two servers: rules whose key holds `@right` live on the right one.
#[derive(Clone)]
struct Nodes {
    left: FaultyStore<RedisStore>,
    right: FaultyStore<RedisStore>,
}

impl Nodes {
    fn of(&self, request: &Request<'_>) -> &FaultyStore<RedisStore> {
        if request.key().windows(6).any(|part| part == b"@right") { &self.right } else { &self.left }
    }
}

impl Store for Nodes {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.of(&request).acquire(request)
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
}

static LEFT: Rule = Rule::new("login@left", Limit::per_hour(5));
static RIGHT: Rule = Rule::new("login@right", Limit::per_hour(2));

#[rate_limit(key = "<email>", window = "1h", max = 5, name = "login@left")]
#[rate_limit(key = "<ip>", window = "1h", max = 2, name = "login@right")]
async fn login(email: &str, ip: &str) -> Result<(), RateLimitError> {
    let _ = (email, ip);
    Ok(())
}

struct Bench {
    _servers: [RedisServer; 2],
    nodes: Nodes,
    limiter: RateLimiter,
}

impl Bench {
    async fn new(policy: OnUnavailable) -> Self {
        let servers = [RedisServer::start(), RedisServer::start()];
        let [left, right] = servers.each_ref().map(|server| RedisStore::new(&server.url()).unwrap());
        left.ready().await.unwrap();
        right.ready().await.unwrap();
        let nodes = Nodes { left: FaultyStore::new(left), right: FaultyStore::new(right) };
        let builder = RateLimiter::builder().store(nodes.clone()).on_unavailable(policy);
        let limiter = builder.timeout(Duration::from_millis(500)).build().unwrap();
        Self { _servers: servers, nodes, limiter }
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
    let bench = Bench::new(OnUnavailable::Deny).await;
    bench
        .limiter
        .scope(async {
            assert!(login("a", "1").await.is_ok());
            assert!(login("a", "1").await.is_ok());
            for _ in 0..3 {
                let refused = login("a", "1").await.unwrap_err();
                assert_eq!(refused.decision().unwrap().rule(), "login@right");
                bench.eventually_left(&LEFT, "a", 3).await;
            }
            assert!(login("a", "2").await.is_ok());
            assert_eq!(bench.left_of(&LEFT, "a").await, 2);
        })
        .await;
}

#[tokio::test]
async fn the_longest_wait_of_all_servers_is_named() {
    let bench = Bench::new(OnUnavailable::Deny).await;
    bench
        .limiter
        .scope(async {
            for ip in ["1", "1", "2", "3", "4"] {
                assert!(login("a", ip).await.is_ok());
            }
            // Both refuse; the left one is asked first, and frees its slot a moment earlier.
            let refused = login("a", "1").await.unwrap_err();
            let (left, right) = (
                bench.limiter.peek(&LEFT, &Key::of("a")).await.unwrap(),
                bench.limiter.peek(&RIGHT, &Key::of("1")).await.unwrap(),
            );
            assert!(!left.is_allowed() && !right.is_allowed());
            assert!(refused.retry_after() >= left.retry_after().max(right.retry_after()));
        })
        .await;
}

#[tokio::test]
async fn a_server_that_fails_leaves_nothing_charged_on_the_other() {
    let bench = Bench::new(OnUnavailable::Deny).await;
    for fault in [StoreErrorKind::Unavailable, StoreErrorKind::Full] {
        bench.nodes.right.fail_with(fault);
        let refused = bench.limiter.scope(login("b", "1")).await.unwrap_err();
        assert!(matches!(refused, RateLimitError::Unavailable(_)), "{refused:?}");
        bench.nodes.right.heal();
        bench.eventually_left(&LEFT, "b", 5).await;
    }
}

#[tokio::test]
async fn a_caller_who_gives_up_in_between_is_given_back() {
    let bench = Bench::new(OnUnavailable::Deny).await;
    bench.nodes.right.hang();
    {
        let call = bench.limiter.scope(login("c", "1"));
        let gave_up = tokio::time::timeout(Duration::from_millis(50), call).await;
        assert!(gave_up.is_err());
    }
    bench.nodes.right.heal();
    bench.eventually_left(&LEFT, "c", 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_than_either_limit_is_admitted() {
    let bench = Bench::new(OnUnavailable::Deny).await;
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        tasks.spawn(bench.limiter.scope(login("d", "1")));
    }
    let admitted = tasks.join_all().await.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(admitted <= 2, "{admitted} of 2 were admitted");
    bench.eventually_left(&LEFT, "d", 5 - admitted as u64).await;
}

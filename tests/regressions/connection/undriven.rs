//! A current-thread runtime that runs only while a caller blocks on it.

use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Decision, Key, Limit, OnUnavailable, RateLimiter, Rule};
use tokio::runtime::Runtime;

use crate::support::redis::RedisServer;

static RULE: Rule = Rule::new("undriven", Limit::per_hour(1_000));
static NARROW: Rule = Rule::new("undriven narrow", Limit::per_hour(3));

const TIMEOUT: Duration = Duration::from_millis(100);
/// For slow machines.
const SLACK: Duration = Duration::from_millis(400);
/// Attempts go on with pauses of up to a second.
const PATIENCE: Duration = Duration::from_secs(8);

struct Caller {
    runtime: Runtime,
    limiter: RateLimiter,
}

impl Caller {
    fn on(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limiter = RateLimiter::builder().redis(url).on_unavailable(OnUnavailable::Allow).timeout(TIMEOUT);
        Self { runtime, limiter: limiter.build().unwrap() }
    }

    /// One call, which is all that the runtime gets to do.
    fn call(&self, rule: &'static Rule) -> Option<Decision> {
        let start = Instant::now();
        let decision = self.runtime.block_on(self.limiter.acquire(rule, &Key::global())).ok();
        assert!(start.elapsed() <= TIMEOUT + SLACK, "a call took {:?}", start.elapsed());
        decision
    }

    fn is_answered_by_the_store(&self) -> bool {
        self.call(&RULE).is_some_and(|decision| !decision.is_degraded())
    }

    /// Calls with pauses until the store answers.
    fn comes_back(&self) {
        let start = Instant::now();
        while !self.is_answered_by_the_store() {
            assert!(start.elapsed() < PATIENCE, "limits are off for good");
            thread::sleep(Duration::from_millis(20));
        }
        let admitted = (0..10).filter(|_| self.call(&NARROW).is_some()).count();
        assert_eq!(admitted, 3, "limits are back");
    }

    fn is_down(&self) {
        for _ in 0..20 {
            assert!(!self.is_answered_by_the_store());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_store_that_was_down_comes_back_to_callers_who_only_block_on_their_runtime() {
    let mut server = RedisServer::start();
    let caller = Caller::on(&server.url());
    server.stop();
    caller.is_down();
    server.restart();
    caller.comes_back();
}

#[test]
fn a_store_that_was_lost_comes_back_to_callers_who_only_block_on_their_runtime() {
    let mut server = RedisServer::start();
    let caller = Caller::on(&server.url());
    assert!(caller.is_answered_by_the_store());
    server.stop();
    caller.is_down();
    server.restart();
    caller.comes_back();
}

#[test]
fn a_store_that_was_slow_comes_back_to_callers_who_only_block_on_their_runtime() {
    let server = RedisServer::start();
    let caller = Caller::on(&server.url());
    assert!(caller.is_answered_by_the_store());
    server.freeze();
    for _ in 0..10 {
        assert!(!caller.is_answered_by_the_store());
    }
    server.thaw();
    caller.comes_back();
}

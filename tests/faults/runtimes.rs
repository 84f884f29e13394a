//! Runtimes that do not get to run their tasks.

use std::thread;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimiter, Rule, Source};
use tokio::runtime::{Builder, Runtime};

use crate::harness::{POLICIES, Row, TIMEOUT, Tally, nothing_is_left_on};
use crate::support::cluster::RedisCluster;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

/// Attempts go on with pauses of up to a second, and a caller has to come by.
const RECOVERY: Duration = Duration::from_millis(2_500);
const REST: Duration = Duration::from_millis(10);

static RULE: Rule = Rule::new("runtimes", Limit::per_hour(1_000_000));

/// Makes a call; whether the store answered.
async fn call(tally: &mut Tally, limiter: &RateLimiter) -> bool {
    let start = Instant::now();
    let by = match limiter
        .acquire(&RULE, &Key::global())
        .await
        .map(|decision| decision.source())
    {
        Ok(Source::Store) => "store",
        Ok(Source::Fallback) => "fallback",
        Ok(_) => "allow",
        Err(RateLimitError::Unavailable(_)) => "unavailable",
        Err(error) => panic!("{error:?}"),
    };
    tally.add(start.elapsed(), by);
    by == "store"
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn limiters(url: &str) -> Vec<RateLimiter> {
    let limiter = |policy| {
        RateLimiter::builder()
            .redis(url)
            .timeout(TIMEOUT)
            .on_unavailable(policy)
            .build()
            .unwrap()
    };
    POLICIES.map(limiter).into()
}

/// Calls of each policy from a runtime that runs for as long as a call takes. What lies behind
/// `proxy` is refused for 500 ms.
fn calls_on_a_runtime_of_their_own(fault: &'static str, url: String, proxy: Proxy) -> Row {
    proxy.refuse(true);
    let thread = thread::spawn(move || {
        let (runtime, limiters, mut calls) = (runtime(), limiters(&url), Tally::default());
        let mut all_are_answered = || {
            thread::sleep(REST);
            let mut all = true;
            for limiter in &limiters {
                all &= runtime.block_on(call(&mut calls, limiter));
            }
            all
        };
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            assert!(!all_are_answered());
        }
        proxy.refuse(false);
        let healed = Instant::now();
        while !all_are_answered() {
            assert!(healed.elapsed() < RECOVERY, "the store never answers again");
        }
        let took = healed.elapsed();
        calls.row(fault, took)
    });
    thread.join().unwrap()
}

/// A call that is answered at once gives its runtime no time to connect.
pub(crate) async fn blocked_on() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let row = calls_on_a_runtime_of_their_own(
        "refused for 500 ms, where a current-thread runtime runs only in `block_on(acquire)`",
        proxy.url(),
        proxy.clone(),
    );
    nothing_is_left_on(&server);
    row
}

/// Nor to ask for the slots.
pub(crate) async fn blocked_on_beside_a_cluster() -> Row {
    let cluster = RedisCluster::start(3, 0);
    let proxy = Proxy::start(cluster.node(0).port()).await;
    calls_on_a_runtime_of_their_own(
        "cluster: the node of the URL refused for 500 ms, where a current-thread runtime runs only \
         in `block_on(acquire)`",
        format!("redis+cluster://127.0.0.1:{}", proxy.port()),
        proxy.clone(),
    )
}

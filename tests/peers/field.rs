//! The defects that other rate limiters are known for, each with a test that this one does not have
//! it. On the memory store and on Redis where both could.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::unchecked_time_subtraction, reason = "shorter from longer constants")]

mod clocks;
mod counting;
mod keys;
mod server;

use std::sync::Arc;
use std::time::Duration;

use crate::support::redis::{RedisServer, shared};
use crate::support::{strict, unique};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, RedisStore, Rule};
use tokio::task::JoinSet;

const MINUTE: Duration = Duration::from_secs(60);
const MICROSECOND: Duration = Duration::from_micros(1);

/// A limiter on a server and its clock, and the prefix of its keys.
fn on_redis(server: &RedisServer) -> (RateLimiter, String) {
    let prefix = unique("field");
    (strict().redis(&server.url()).prefix(prefix.as_str()).build().unwrap(), prefix)
}

/// A limiter on a server and a clock of the test's, and the prefix of its keys.
fn on_redis_with_clock(server: &RedisServer) -> (RateLimiter, FakeClock, String) {
    let (clock, prefix) = (FakeClock::new(), unique("field"));
    let store = RedisStore::new(&server.url()).unwrap().with_clock(clock.clone());
    (strict().store(store).prefix(prefix.as_str()).build().unwrap(), clock, prefix)
}

/// A limiter in memory and one on Redis, each with a clock of the test's.
fn both() -> [(RateLimiter, FakeClock); 2] {
    let clock = FakeClock::new();
    let memory = strict().store(MemoryStore::new().with_clock(clock.clone())).build().unwrap();
    let (redis, redis_clock, _) = on_redis_with_clock(shared());
    [(memory, clock), (redis, redis_clock)]
}

/// Whether a call is admitted. Every other answer than yes and no fails the test.
async fn admits(limiter: &RateLimiter, rule: &Rule, key: &Key) -> bool {
    match limiter.acquire(rule, key).await {
        Ok(decision) => {
            assert!(!decision.is_degraded(), "{decision:?}");
            true
        }
        Err(RateLimitError::Exceeded(_)) => false,
        Err(error) => panic!("no decision: {error:?}"),
    }
}

async fn retry_after(limiter: &RateLimiter, rule: &Rule, key: &Key) -> Duration {
    limiter.acquire(rule, key).await.unwrap_err().retry_after().unwrap()
}

/// `calls` calls on one key, many at a time; gives the number of those admitted.
async fn burst(limiters: &[&RateLimiter], rule: Rule, key: &Key, calls: usize) -> usize {
    const AT_ONCE: usize = 128;
    let rule = Arc::new(rule);
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let share = calls / AT_ONCE + usize::from(task < calls % AT_ONCE);
        let limiter = limiters.iter().cycle().nth(task).copied().unwrap().clone();
        let (rule, key) = (Arc::clone(&rule), key.clone());
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..share {
                admitted += usize::from(admits(&limiter, &rule, &key).await);
            }
            admitted
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// The number in one field of INFO.
fn info(server: &RedisServer, section: &str, field: &str) -> u64 {
    let value = server.info(section, field);
    value.parse().unwrap_or_else(|_| panic!("{field}: {value:?}"))
}

/// Calls, and microseconds spent, of one command since the start or `CONFIG RESETSTAT`.
fn stats_of(server: &RedisServer, command: &str) -> (u64, u64) {
    let info = server.cli(&["INFO", "commandstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(':'));
    let field = |name: &str| {
        line.and_then(|line| line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')))
            .map_or(0, |value| value.trim().parse().unwrap())
    };
    (field("calls"), field("usec"))
}

/// The keys under a prefix.
fn keys_of(server: &RedisServer, prefix: &str) -> Vec<String> {
    let keys = server.cli(&["KEYS", &format!("{prefix}:*")]);
    keys.lines().map(str::to_owned).collect()
}

//! What articles on rate limiting with Redis have people paste, system by system: each module does
//! the same job with this crate, and has a test for every defect of the original that shows it
//! absent.
//!
//! Expressions that fail at run time there are compile errors here: `ui/fail/keys/` has the
//! cases.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::unchecked_time_subtraction, reason = "shorter from longer times")]

mod annotation;
mod cell;
mod incr_expire;
mod lua_modes;
mod zset_pipeline;

use std::time::Duration;

use crate::support::redis::{RedisServer, shared};
use crate::support::{strict, unique};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, RedisStore, Rule, rate_limit,
};

const ALGORITHMS: &[Algorithm] = Algorithm::ALL;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const MICROSECOND: Duration = Duration::from_micros(1);

type Outcome = Result<(), RateLimitError>;

/// A limiter on a server and its clock, and the prefix of its keys.
fn on_redis(server: &RedisServer) -> (RateLimiter, String) {
    let prefix = unique("articles");
    (strict().redis(&server.url()).prefix(prefix.as_str()).build().unwrap(), prefix)
}

/// A limiter in memory and one on Redis, on a clock of the test's.
fn both() -> [(RateLimiter, FakeClock); 2] {
    let (clock, redis_clock) = (FakeClock::new(), FakeClock::new());
    let memory = strict().store(MemoryStore::new().with_clock(clock.clone())).build().unwrap();
    let store = RedisStore::new(&shared().url()).unwrap().with_clock(redis_clock.clone());
    let redis = strict().store(store).prefix(unique("articles")).build().unwrap();
    [(memory, clock), (redis, redis_clock)]
}

/// Whether a call is admitted. Every other answer than yes and no fails the test.
async fn admits(limiter: &RateLimiter, rule: &Rule, key: &Key) -> bool {
    match limiter.acquire(rule, key).await {
        Ok(_) => true,
        Err(RateLimitError::Exceeded(_)) => false,
        Err(error) => panic!("no decision: {error:?}"),
    }
}

fn is_refused(outcome: &Outcome) -> bool {
    match outcome {
        Ok(()) => false,
        Err(RateLimitError::Exceeded(_)) => true,
        Err(error) => panic!("no decision: {error:?}"),
    }
}

/// The keys under a prefix, and for how many milliseconds each has still to live (-1: for ever).
fn lives(server: &RedisServer, prefix: &str) -> Vec<(String, i64)> {
    let keys = server.cli(&["KEYS", &format!("{prefix}:*")]);
    let life = |key: &str| (key.to_owned(), server.cli(&["PTTL", key]).parse().unwrap());
    keys.lines().filter(|key| !key.is_empty()).map(life).collect()
}

/// How often the server ran a command since the start or `CONFIG RESETSTAT`.
fn runs_of(server: &RedisServer, command: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

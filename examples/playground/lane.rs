//! [`Lane`]: one limit of the page, and the requests that are fired at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::{Key, Limit, MemoryStore, Policy, RateLimitError, RateLimiter, Rule};
use serde::Serialize;

/// What the limit is comes from the policy.
static RULE: Rule = Rule::new("playground", Limit::per_second(1)).with_policy("lane");

pub(crate) struct Lane {
    limiter: RateLimiter,
    moment: Moment,
    start: Instant,
}

/// How one request fared. Times are in milliseconds.
#[derive(Serialize)]
pub(crate) struct Arrival {
    /// Since the lane was set up.
    at: f64,
    allowed: bool,
    cost: u64,
    limit: u64,
    remaining: u64,
    retry_after: f64,
    reset_after: f64,
}

impl Lane {
    pub(crate) fn new(policy: Policy) -> Result<Self, RateLimitError> {
        let moment = Moment::default();
        let store = MemoryStore::new().with_clock(moment.clone());
        let limiter = RateLimiter::builder().store(store).policy("lane", policy).build()?;
        Ok(Self { limiter, moment, start: Instant::now() })
    }

    pub(crate) async fn fire(&mut self, count: u32, cost: u64) -> Result<Vec<Arrival>, RateLimitError> {
        self.moment.set(self.start.elapsed());
        let rule = RULE.with_cost(cost);
        let mut arrivals = Vec::new();
        for _ in 0..count {
            let decision = match self.limiter.acquire(&rule, &Key::of("you")).await {
                Ok(decision) | Err(RateLimitError::Exceeded(decision)) => decision,
                Err(error) => return Err(error),
            };
            arrivals.push(Arrival {
                at: millis(self.moment.now()),
                allowed: decision.is_allowed(),
                cost,
                limit: decision.limit(),
                remaining: decision.remaining(),
                retry_after: millis(decision.retry_after()),
                reset_after: millis(decision.reset_after()),
            });
        }
        Ok(arrivals)
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A clock that shows when the last burst came: all requests of a burst come at once.
#[derive(Clone, Default)]
struct Moment(Arc<AtomicU64>);

impl Moment {
    fn set(&self, elapsed: Duration) {
        self.0.store(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for Moment {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

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
    reset_after: f64,
}

/// Where the limit stands, and how the next request would fare. Times are in milliseconds.
#[derive(Serialize)]
pub(crate) struct Standing {
    /// Since the lane was set up.
    at: f64,
    limit: u64,
    remaining: u64,
    /// Zero if the next request is admitted; `None` if it costs more than the limit ever admits.
    retry_after: Option<f64>,
}

/// What came of a burst.
#[derive(Serialize)]
pub(crate) struct Fired {
    arrivals: Vec<Arrival>,
    next: Standing,
}

impl Lane {
    pub(crate) fn new(policy: Policy) -> Result<Self, RateLimitError> {
        let moment = Moment::default();
        let store = MemoryStore::new().with_clock(moment.clone());
        let limiter = RateLimiter::builder().store(store).policy("lane", policy).build()?;
        Ok(Self { limiter, moment, start: Instant::now() })
    }

    /// So many requests at once.
    pub(crate) async fn fire(&self, count: u32, cost: u64) -> Result<Fired, RateLimitError> {
        self.moment.set(self.start.elapsed());
        let rule = RULE.with_cost(cost);
        let mut arrivals = Vec::new();
        for _ in 0..count {
            let (allowed, reset_after) = match self.limiter.acquire(&rule, &key()).await {
                Ok(decision) | Err(RateLimitError::Exceeded(decision)) => {
                    (decision.is_allowed(), decision.reset_after())
                }
                Err(RateLimitError::CostExceedsLimit { .. }) => (false, Duration::ZERO),
                Err(error) => return Err(error),
            };
            arrivals.push(Arrival { at: millis(self.moment.now()), allowed, cost, reset_after: millis(reset_after) });
        }
        Ok(Fired { arrivals, next: self.standing(cost).await? })
    }

    /// Where the limit stands now, for a request of this cost.
    pub(crate) async fn peek(&self, cost: u64) -> Result<Standing, RateLimitError> {
        self.moment.set(self.start.elapsed());
        self.standing(cost).await
    }

    async fn standing(&self, cost: u64) -> Result<Standing, RateLimitError> {
        let retry_after = match self.limiter.peek(&RULE.with_cost(cost), &key()).await {
            Ok(decision) if decision.is_allowed() => Some(0.0),
            Ok(decision) => decision.retry_after().map(millis),
            Err(RateLimitError::CostExceedsLimit { .. }) => None,
            Err(error) => return Err(error),
        };
        let whole = self.limiter.peek(&RULE.with_cost(0), &key()).await?;
        let at = millis(self.moment.now());
        Ok(Standing { at, limit: whole.limit(), remaining: whole.remaining(), retry_after })
    }
}

fn key() -> Key {
    Key::of("you")
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A clock that shows when the limit was last asked: all requests of a burst come at once.
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

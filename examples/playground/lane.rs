//! [`Lane`]: one limit of the page, and the requests that are sent to it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::{
    Key, Limit, MemoryStore, Permit, Policy, RateLimitError, RateLimiter, Rule,
};
use serde::{Deserialize, Serialize};

/// The limits come from the policy `lane`; the limit given here is not used.
static RULE: Rule = Rule::new("playground", Limit::per_second(1)).with_policy("lane");

pub(crate) struct Lane {
    limiter: RateLimiter,
    rule: Rule,
    /// The permits of the calls in flight.
    calls: Vec<Permit>,
    moment: Moment,
    start: Instant,
}

/// The settings of a lane on the page.
#[derive(Deserialize)]
pub(crate) struct Settings {
    policy: Policy,
    /// The highest number of calls in flight, if that is limited.
    concurrent: Option<NonZeroU64>,
}

/// The decision on one request. Times are in milliseconds.
#[derive(Serialize)]
pub(crate) struct Arrival {
    /// Since the lane was set up.
    at: f64,
    allowed: bool,
    cost: u64,
    reset_after: f64,
}

/// The state of the limit, and the decision on the next request. Times are in milliseconds.
#[derive(Serialize)]
pub(crate) struct Standing {
    /// Since the lane was set up.
    at: f64,
    limit: u64,
    remaining: u64,
    /// Zero if the next request is admitted; `None` if it costs more than the limit ever admits, or
    /// if it is refused because of the calls in flight.
    retry_after: Option<f64>,
    /// The remaining time of a block, zero without one.
    blocked_for: f64,
    in_flight: usize,
}

/// The decisions on a burst.
#[derive(Serialize)]
pub(crate) struct Fired {
    arrivals: Vec<Arrival>,
    next: Standing,
}

impl Lane {
    pub(crate) fn new(settings: Settings) -> Result<Self, RateLimitError> {
        let moment = Moment::default();
        let store = MemoryStore::new().with_clock(moment.clone());
        let limiter = RateLimiter::builder()
            .store(store)
            .policy("lane", settings.policy)
            .build()?;
        let rule = match settings.concurrent {
            Some(concurrent) => RULE.clone().with_concurrent(concurrent.get()),
            None => RULE.clone(),
        };
        Ok(Self {
            limiter,
            rule,
            calls: Vec::new(),
            moment,
            start: Instant::now(),
        })
    }

    /// Makes `count` requests at the same time of the clock; each ends before the next one begins.
    pub(crate) async fn fire(&mut self, count: u32, cost: u64) -> Result<Fired, RateLimitError> {
        self.moment.set(self.start.elapsed());
        let mut arrivals = Vec::new();
        for _ in 0..count {
            let (arrival, _) = self.arrive(cost).await?;
            arrivals.push(arrival);
        }
        Ok(Fired {
            arrivals,
            next: self.standing(cost).await?,
        })
    }

    /// Starts a call that is in flight until [`end`](Self::end).
    pub(crate) async fn begin(&mut self, cost: u64) -> Result<Fired, RateLimitError> {
        self.moment.set(self.start.elapsed());
        let (arrival, permit) = self.arrive(cost).await?;
        self.calls.extend(permit);
        Ok(Fired {
            arrivals: vec![arrival],
            next: self.standing(cost).await?,
        })
    }

    /// Ends the oldest call in flight.
    pub(crate) fn end(&mut self) {
        if !self.calls.is_empty() {
            drop(self.calls.remove(0));
        }
    }

    /// Makes one request; returns its permit if calls in flight are limited.
    async fn arrive(&self, cost: u64) -> Result<(Arrival, Option<Permit>), RateLimitError> {
        let rule = self.rule.with_cost(cost);
        let answer = match rule.concurrent() {
            Some(_) => self
                .limiter
                .enter(&rule, &key())
                .await
                .map(|permit| (Some(*permit.decision()), Some(permit))),
            None => self
                .limiter
                .acquire(&rule, &key())
                .await
                .map(|decision| (Some(decision), None)),
        };
        let (decision, permit) = match answer {
            Ok(admitted) => admitted,
            Err(RateLimitError::Exceeded(decision)) => (Some(decision), None),
            Err(RateLimitError::CostExceedsLimit { .. }) => (None, None),
            Err(error) => return Err(error),
        };
        let allowed = decision.is_some_and(|decision| decision.is_allowed());
        let reset_after =
            millis(decision.map_or(Duration::ZERO, |decision| decision.reset_after()));
        Ok((
            Arrival {
                at: millis(self.moment.now()),
                allowed,
                cost,
                reset_after,
            },
            permit,
        ))
    }

    /// The state of the limit now, for a request of this cost.
    pub(crate) async fn peek(&self, cost: u64) -> Result<Standing, RateLimitError> {
        self.moment.set(self.start.elapsed());
        self.standing(cost).await
    }

    async fn standing(&self, cost: u64) -> Result<Standing, RateLimitError> {
        let (retry_after, blocked_for) =
            match self.limiter.peek(&self.rule.with_cost(cost), &key()).await {
                Ok(decision) if decision.is_allowed() => (Some(0.0), 0.0),
                Ok(decision) => {
                    let retry_after = decision.retry_after().map(millis);
                    (
                        retry_after,
                        retry_after
                            .filter(|_| decision.is_blocked())
                            .unwrap_or_default(),
                    )
                }
                Err(RateLimitError::CostExceedsLimit { .. }) => (None, 0.0),
                Err(error) => return Err(error),
            };
        let whole = self.limiter.peek(&RULE.with_cost(0), &key()).await?;
        let at = millis(self.moment.now());
        let (limit, remaining) = (whole.limit(), whole.remaining());
        Ok(Standing {
            at,
            limit,
            remaining,
            retry_after,
            blocked_for,
            in_flight: self.calls.len(),
        })
    }
}

fn key() -> Key {
    Key::of("you")
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A clock that stands still during a burst, so that all its requests have the same time.
#[derive(Clone, Default)]
struct Moment(Arc<AtomicU64>);

impl Moment {
    fn set(&self, elapsed: Duration) {
        self.0.store(
            u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }
}

impl Clock for Moment {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

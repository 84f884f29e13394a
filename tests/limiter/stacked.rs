//! Checks of one call by several limiters.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::time::Duration;

use super::{in_memory, on_redis};
use crate::support::unique;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Limit, RateLimitError, RateLimiter, Rule, key, rate_limit};

struct Two {
    wide: RateLimiter,
    narrow: RateLimiter,
}

#[rate_limit(name = "stack: wide", key = "<id>", window = "60s", max = 5, limiter = two.wide)]
#[rate_limit(name = "stack: narrow", key = "<id>", window = "60s", max = 1, limiter = two.narrow)]
async fn stacked(two: &Two, id: u64) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn what_one_limiter_refuses_the_other_gives_back() {
    let rule = Rule::new("stack: wide", Limit::per_minute(5));
    let (clock, prefix) = (FakeClock::new(), unique("stack"));
    for wide in [in_memory(&clock).build().unwrap(), on_redis(&clock, &prefix).build().unwrap()] {
        let two = Two { wide, narrow: in_memory(&clock).build().unwrap() };
        assert!(stacked(&two, 7).await.is_ok());
        for _ in 0..8 {
            let refused = stacked(&two, 7).await.unwrap_err();
            assert_eq!(refused.decision().unwrap().rule(), "stack: narrow");
        }
        // Nobody waits for what is given back; it arrives all the same.
        let id = 7_u64;
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let left = two.wide.peek(&rule, &key!("<id>")).await.unwrap().remaining();
            if left == 4 {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "{left} left of 5 after one admitted call");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

//! What operators decide, and blocks that grow: rules of a limiter whose keys are on all nodes.

use ratelimit_runtime::{
    OnUnavailable, RateLimitError, RateLimiter, RateLimiterBuilder, rate_limit,
};

use super::*;
use crate::support::cluster::shared;

/// Enough for every master to have some.
const KEYS: u64 = 12;

fn limiter() -> RateLimiterBuilder {
    let builder = RateLimiter::builder()
        .redis(&shared().url())
        .prefix(unique("operators"))
        .timeout(PATIENCE);
    builder.on_unavailable(OnUnavailable::Deny)
}

#[rate_limit(
    name = "by_email", key = "<email>", window = "1m", max = 1, block = "2m..1h", limiter = limiter
)]
#[rate_limit(
    name = "by_ip", key = "<ip>", window = "1m", max = 1, block = "3m..1h", limiter = limiter
)]
async fn log_in(limiter: &RateLimiter, email: u64, ip: u64) -> Result<(), RateLimitError> {
    Ok(())
}

/// Where both rules of a stack refuse, on whichever nodes, the call is refused by a block; it is no
/// offence for keys that it does not have.
#[tokio::test]
async fn of_a_stack_whose_rules_both_offend_a_block_refuses() {
    let limiter = limiter().build().unwrap();
    for key in 0..KEYS {
        log_in(&limiter, key, key + 1_000).await.unwrap();
        for _ in 0..2 {
            let refused = log_in(&limiter, key, key + 1_000).await.unwrap_err();
            assert!(
                refused.decision().unwrap().is_blocked(),
                "key {key}: {refused:?}"
            );
        }
        // Another user from another address.
        log_in(&limiter, key + 2_000, key + 3_000).await.unwrap();
    }
}

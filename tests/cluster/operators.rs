//! What operators decide, and blocks that grow: rules of a limiter whose keys are on all nodes.

use ratelimit_runtime::{OnUnavailable, RateLimitError, RateLimiter, rate_limit};

use super::*;
use crate::support::cluster::shared;

/// Enough for every master to have some.
const KEYS: u64 = 12;

#[rate_limit(
    name = "by_email", key = "<email>", window = "1m", max = 1, block = "2m..1h", limiter = limiter
)]
#[rate_limit(
    name = "by_ip", key = "<ip>", window = "1m", max = 1, block = "3m..1h", limiter = limiter
)]
async fn log_in(limiter: &RateLimiter, email: u64, ip: u64) -> Result<(), RateLimitError> {
    Ok(())
}

/// An offence is a call that would have run but for one limit: where both rules of a stack refuse,
/// on whichever nodes, neither sets its block.
#[tokio::test]
async fn a_rule_of_a_stack_blocks_where_it_alone_refuses() {
    let builder = RateLimiter::builder()
        .redis(&shared().url())
        .prefix(unique("operators"))
        .timeout(PATIENCE);
    let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
    let is_blocked = async |email: u64, ip: u64| {
        let refused = log_in(&limiter, email, ip).await.unwrap_err();
        refused.decision().unwrap().is_blocked()
    };
    for key in 0..KEYS {
        let (ip, other) = (key + 1_000, key + 2_000);
        log_in(&limiter, key, ip).await.unwrap();
        assert!(!is_blocked(key, ip).await, "key {key}: both refuse");
        assert!(is_blocked(key, other).await, "key {key}: the email alone");
        assert!(is_blocked(key, other).await, "key {key}: it goes on");
        assert!(is_blocked(other, ip).await, "key {key}: the address alone");
        // Another user from another address.
        log_in(&limiter, other, other).await.unwrap();
    }
}

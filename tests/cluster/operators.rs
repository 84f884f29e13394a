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

/// An offence is a call that would have run but for one limit: where both rules of a stack refuse,
/// on whichever nodes, neither sets its block.
#[tokio::test]
async fn a_rule_of_a_stack_blocks_where_it_alone_refuses() {
    let limiter = limiter().build().unwrap();
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

#[rate_limit(
    name = "code_few",
    key = "<email>:<ip>",
    window = "1m",
    max = 1,
    block = "1h..1d",
    limiter = limiter
)]
#[rate_limit(name = "code_email", key = "<email>", window = "1h", max = 5, limiter = limiter)]
async fn send_code(limiter: &RateLimiter, email: u64, ip: u64) -> Result<(), RateLimitError> {
    Ok(())
}

/// The example of the guide, on nodes of a cluster: a stranger who floods an address is blocked,
/// and uses up nothing of what its owner may ask for.
#[tokio::test]
async fn a_flood_by_a_stranger_blocks_only_the_stranger() {
    let limiter = limiter().build().unwrap();
    let (stranger, own) = (1, 2);
    for email in 0..KEYS {
        send_code(&limiter, email, stranger).await.unwrap();
        let mut flood = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let limiter = limiter.clone();
            flood.spawn(async move { send_code(&limiter, email, stranger).await });
        }
        for refused in flood.join_all().await {
            let refused = refused.unwrap_err();
            assert!(
                refused.decision().unwrap().rule() == "code_few",
                "{refused:?}"
            );
        }
        let refused = send_code(&limiter, email, stranger).await.unwrap_err();
        assert!(refused.decision().unwrap().is_blocked(), "{refused:?}");
        for code in 0..4 {
            let sent = send_code(&limiter, email, own + code).await;
            assert!(sent.is_ok(), "email {email}, code {code}: {sent:?}");
        }
    }
}

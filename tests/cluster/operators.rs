//! What operators decide, and blocks that grow: rules of a limiter whose keys are on all nodes.

use ratelimit_runtime::{
    Key, OnUnavailable, Override, Policy, RateLimitError, RateLimiter, RateLimiterBuilder, Rule, rate_limit,
};

use super::*;
use crate::support::cluster::shared;

/// Enough for every master to have some.
const KEYS: u64 = 12;

fn limiter() -> RateLimiterBuilder {
    let builder = RateLimiter::builder().redis(&shared().url()).prefix(unique("operators")).timeout(PATIENCE);
    builder.on_unavailable(OnUnavailable::Deny)
}

#[tokio::test]
async fn overrides_of_single_keys_apply_on_every_node() {
    const MAX: u64 = 2;
    let rule = Rule::new("overridden", Limit::per_hour(MAX)).with_policy("api");
    let limits_of = |key: u64| if key.is_multiple_of(2) { 3 * MAX } else { MAX };
    let policy =
        (0..KEYS).filter(|key| key.is_multiple_of(2)).fold(Policy::new(Limit::per_hour(MAX)), |policy, key| {
            policy.with_override(&Key::of(&key), Override::max(limits_of(key)))
        });
    let limiter = limiter().policy("api", policy).build().unwrap();
    for key in 0..KEYS {
        for _ in 0..limits_of(key) {
            assert!(limiter.acquire(&rule, &Key::of(&key)).await.is_ok(), "key {key}");
        }
        let refused = limiter.acquire(&rule, &Key::of(&key)).await.unwrap_err();
        assert_eq!(refused.decision().unwrap().limit(), limits_of(key), "key {key}");
    }
    // Without them, what was admitted counts.
    limiter.set_policies([("api", Policy::new(Limit::per_hour(MAX + 1)))]).unwrap();
    for key in 0..KEYS {
        assert_eq!(limiter.acquire(&rule, &Key::of(&key)).await.is_ok(), limits_of(key) == MAX, "key {key}");
    }
}

#[rate_limit(name = "grows", key = "<key>", window = "10ms", max = 1, block = "2s..1h", limiter = limiter)]
async fn grows(limiter: &RateLimiter, key: u64) -> Result<(), RateLimitError> {
    Ok(())
}

/// The first block lasts for two seconds, and the next one for four.
#[tokio::test]
async fn blocks_grow_on_every_node() {
    let limiter = limiter().build().unwrap();
    // A busy machine may take longer for two calls than the window lasts.
    let block = async |key| {
        let refused = loop {
            if let Err(refused) = grows(&limiter, key).await {
                break refused;
            }
        };
        assert!(refused.decision().unwrap().is_blocked(), "key {key}: {refused:?}");
        refused.retry_after().unwrap()
    };
    for key in 0..KEYS {
        let first = block(key).await;
        assert!(first <= Duration::from_secs(2), "key {key}: {first:?}");
    }
    sleep(Duration::from_millis(2_050)).await;
    for key in 0..KEYS {
        let second = block(key).await;
        assert!(second > Duration::from_secs(2) && second <= Duration::from_secs(4), "key {key}: {second:?}");
    }
}

#[rate_limit(name = "by_email", key = "<email>", window = "1m", max = 1, block = "2m..1h", limiter = limiter)]
#[rate_limit(name = "by_ip", key = "<ip>", window = "1m", max = 1, block = "3m..1h", limiter = limiter)]
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
            assert!(refused.decision().unwrap().is_blocked(), "key {key}: {refused:?}");
        }
        // Another user from another address.
        log_in(&limiter, key + 2_000, key + 3_000).await.unwrap();
    }
}

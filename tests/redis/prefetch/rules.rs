//! Rules with `prefetch`, by policies and without scripts.

use std::time::Duration;

use ratelimit_runtime::{Key, Policy, RedisMode, Rule, Source};

use super::{LEASE, MAX, limits, spend_by};
use crate::support::redis::shared;
use crate::support::{settled, strict, unique};

#[tokio::test]
async fn a_rule_with_prefetch_admits_by_grants_which_new_policies_give_back() {
    let limiter = strict().redis(&shared().url()).build().unwrap();
    limiter.ready().await.unwrap();
    let limit = limits()[0];
    let rule = Rule::named(unique("ahead"), limit).with_prefetch(Duration::from_secs(10));
    let (key, plain) = (Key::global(), rule.clone().with_prefetch(Duration::ZERO));
    let calls = spend_by(&limiter, &rule, &key).await;
    let used = async || MAX - limiter.peek(&plain, &key).await.unwrap().remaining();
    assert!(used().await > calls);
    let admitted = limiter.acquire(&rule, &key).await.unwrap();
    assert_eq!(
        (admitted.source(), admitted.is_degraded()),
        (Source::Grant, false)
    );
    assert_eq!(admitted.remaining(), MAX - calls - 1);
    let policies = [("another", Policy::new(limit))];
    limiter.set_policies(policies).unwrap();
    settled(&limiter).await;
    assert_eq!(used().await, calls + 1);
    // A charge that was spent from memory is given back as any other.
    spend_by(&limiter, &rule, &key).await;
    let admitted = limiter.acquire(&rule, &key).await.unwrap();
    assert_eq!(admitted.source(), Source::Grant);
    let before = used().await;
    assert!(limiter.refund(&rule, &key, &admitted).await.unwrap());
    settled(&limiter).await;
    assert!(used().await < before);
}

#[tokio::test]
async fn a_rule_with_prefetch_is_decided_call_by_call_without_scripts() {
    let store = shared().store().mode(RedisMode::Transactions);
    let limiter = strict().store(store).build().unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::named(unique("plain"), limits()[0]).with_prefetch(LEASE);
    for call in 1..30 {
        let admitted = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert_eq!(
            (admitted.source(), admitted.remaining()),
            (Source::Store, MAX - call)
        );
    }
}

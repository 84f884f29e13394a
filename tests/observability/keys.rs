//! No key is ever in a metric or in the log, whatever it holds.

use std::time::Duration;

use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{Key, Limit, MemoryStore, OnUnavailable, RateLimiter, Rule};

use crate::log::Log;
use crate::redis_server::{ALONE, limiter};
use crate::samples::{Samples, record};
use crate::support::deny_cache::DenyCache;
use crate::support::redis::RedisServer;
use crate::support::unique;

/// A text that only the keys here hold.
const MARK: &str = "mallory4711";

fn hostile() -> Vec<Key> {
    let texts = [
        MARK.to_owned(),
        format!("{MARK}\",rule=\"x"),
        format!("}} 1\nratelimit_decisions_total{{rule=\"{MARK}\"}} 9"),
        format!("{{{MARK}}}"),
        format!("{MARK}\0\u{202e}"),
        MARK.repeat(2_000),
    ];
    texts.iter().map(Key::of).collect()
}

async fn ask(limiter: &RateLimiter, rule: &Rule) {
    for key in hostile() {
        for _ in 0..3 {
            let _ = limiter.acquire(rule, &key).await;
        }
        let _ = limiter.peek(rule, &key).await;
    }
}

#[tokio::test]
async fn no_label_and_no_field_holds_a_key() {
    let _alone = ALONE.lock().await;
    record();
    let (log, _listening) = Log::listen();
    let rule = |name: &str| Rule::named(unique(name), Limit::per_hour(2));
    let mut rules = Vec::new();

    let in_memory = RateLimiter::with_store(DenyCache::new(MemoryStore::new()));
    rules.extend([
        rule("plain"),
        rule("shadow").with_shadow(true),
        rule("block").with_block(Duration::from_secs(9)),
        rule("heavy").with_cost(3),
        rule("heavy-shadow").with_cost(3).with_shadow(true),
        rule("missing").with_policy("nobody-has-set-it"),
        rule("waits").with_wait(Duration::from_millis(1)),
    ]);
    for rule in &rules {
        ask(&in_memory, rule).await;
    }

    let store = FaultyStore::new(MemoryStore::new());
    let faulty = RateLimiter::builder()
        .store(store.clone())
        .timeout(Duration::from_millis(5))
        .build()
        .unwrap();
    for kind in [
        StoreErrorKind::Unavailable,
        StoreErrorKind::Full,
        StoreErrorKind::Misconfigured,
    ] {
        store.fail_with(kind);
        for policy in [
            OnUnavailable::Local,
            OnUnavailable::Allow,
            OnUnavailable::Deny,
        ] {
            ask(&faulty, &rule("faulty").with_on_unavailable(policy)).await;
        }
    }

    let mut server = RedisServer::start();
    let on_redis = limiter(&server);
    on_redis.ready().await.unwrap();
    ask(&on_redis, &rule("redis")).await;
    server.stop();
    ask(&on_redis, &rule("redis")).await;

    let samples = Samples::now();
    for rule in &rules {
        assert!(
            samples.has("ratelimit_decisions_total", &[("rule", rule.name())]),
            "{}",
            rule.name()
        );
    }
    let told: Vec<_> = samples
        .values()
        .into_iter()
        .filter(|value| value.contains(MARK))
        .collect();
    assert!(told.is_empty(), "{told:?}");
    assert!(log.has("refused") && log.has("degraded") && log.has("outage"));
    let text = log.text();
    let told: Vec<_> = text.lines().filter(|line| line.contains(MARK)).collect();
    assert!(told.is_empty(), "{told:?}");
}

/// Names are made by programmers; whatever they hold, they stay one label.
#[tokio::test]
async fn the_name_of_a_rule_is_one_label() {
    record();
    let name = unique("a \"name\",\\ with=\n{everything}");
    let rule = Rule::named(name.clone(), Limit::per_hour(2));
    drop(RateLimiter::memory().acquire(&rule, &Key::global()).await);
    assert_eq!(
        Samples::now().sum("ratelimit_decisions_total", &[("rule", &name)]),
        1.0
    );
}

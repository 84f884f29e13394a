//! Each documented metric is emitted, with the documented labels and values.

use std::collections::BTreeSet;
use std::time::Duration;

use ratelimit_runtime::{Key, Limit, RateLimiter, Rule};

use crate::documented::{metrics, values};
use crate::permits;
use crate::redis_server::{ALONE, limiter, take_ahead};
use crate::samples::{Samples, record};
use crate::support::redis::RedisServer;
use crate::support::unique;

/// Of a rule of two units an hour: two more than its debt may be.
async fn drop_cost(rule: &Rule) {
    let costly = RateLimiter::memory()
        .reserve(rule, &Key::of("alice"))
        .await
        .unwrap();
    // One more unit than the call has reserved is left, and two more are a debt.
    costly.commit(6);
    let dropped = || Samples::now().sum("ratelimit_cost_dropped_total", &[]);
    crate::redis_server::until("cost is dropped", || dropped() > 0.0).await;
    assert!((dropped() - 2.0).abs() < 0.1, "units, not calls");
}

#[tokio::test]
async fn every_metric_is_emitted_as_it_is_documented() {
    let _alone = ALONE.lock().await;
    record();
    let mut server = RedisServer::start();
    let limiter = limiter(&server);
    limiter.ready().await.unwrap();
    let rule =
        Rule::named(unique("emitted"), Limit::per_hour(2)).with_block(Duration::from_secs(60));
    for _ in 0..5 {
        drop(limiter.acquire(&rule, &Key::of("alice")).await);
    }
    take_ahead(&limiter).await;
    let units = |of: &str| Samples::now().sum("ratelimit_prefetched_units_total", &[("units", of)]);
    assert_eq!(units("granted"), units("spent") + units("given_back"));
    let _losing = permits::that_is_lost(&server).await;
    let lost = || Samples::now().sum("ratelimit_permits_lost_total", &[]);
    crate::redis_server::until("a permit is lost", || lost() > 0.0).await;
    server.stop();
    for _ in 0..5 {
        drop(limiter.acquire(&rule, &Key::of("bob")).await);
    }
    drop(
        RateLimiter::memory()
            .acquire(&rule.with_cost(3), &Key::of("alice"))
            .await,
    );
    drop(
        RateLimiter::memory()
            .enter(&Rule::in_flight("emitted", 1), &Key::of("alice"))
            .await
            .unwrap(),
    );
    drop_cost(&rule).await;
    let file = std::env::temp_dir().join(format!("{}.toml", unique("emitted")));
    std::fs::write(&file, "api = \"5/1m\"").unwrap();
    limiter.watch_policies(&file).await.unwrap();
    for (text, change) in [
        ("api = \"6/1m\"", "replaced"),
        ("api = \"6/1x\"", "refused"),
    ] {
        std::fs::write(&file, text).unwrap();
        let changes =
            || Samples::now().sum("ratelimit_policy_changes_total", &[("change", change)]);
        crate::redis_server::until("the change is seen", || changes() > 0.0).await;
    }
    std::fs::remove_file(&file).unwrap();
    let losses = || {
        Samples::now().sum(
            "ratelimit_connection_losses_total",
            &[("server", &server.address())],
        )
    };
    crate::redis_server::until("the loss is seen", || losses() > 0.0).await;

    let (samples, documented) = (Samples::now(), metrics());
    let ours = |(name, _): &(&String, &String)| name.starts_with("ratelimit");
    let kinds: Vec<_> = samples
        .kinds
        .iter()
        .filter(ours)
        .map(|(name, kind)| (name.as_str(), kind.as_str()))
        .collect();
    let expected: Vec<_> = documented
        .iter()
        .map(|(name, metric)| (name.as_str(), metric.kind.as_str()))
        .collect();
    assert_eq!(kinds, expected);
    for (name, metric) in &documented {
        assert_eq!(samples.labels_of(name), metric.labels, "{name}");
        assert!(samples.helps.contains_key(name), "{name} has no help");
    }
    let values = values();
    let labels: BTreeSet<_> = documented
        .values()
        .flat_map(|metric| metric.labels.clone())
        .collect();
    assert_eq!(
        values.keys().cloned().collect::<BTreeSet<_>>(),
        labels,
        "each label is explained"
    );
    for (metric, label) in [
        ("ratelimit_decisions_total", "outcome"),
        ("ratelimit_decisions_total", "source"),
        ("ratelimit_store_seconds", "result"),
        ("ratelimit_connections", "state"),
        ("ratelimit_policy_changes_total", "change"),
        ("ratelimit_prefetched_units_total", "units"),
    ] {
        for value in samples.values_of(metric, label) {
            assert!(
                values[label].contains(value),
                "{label}={value} of {metric} is not documented"
            );
        }
    }
    assert_eq!(
        samples.values_of("ratelimit_connections", "state").len(),
        values["state"].len()
    );
}

/// Of a counter that begins at 1, Prometheus sees no increase.
#[tokio::test]
async fn counters_of_rare_events_begin_at_0() {
    let _alone = ALONE.lock().await;
    record();
    let server = RedisServer::start();
    let limiter = limiter(&server);
    limiter.ready().await.unwrap();
    let file = std::env::temp_dir().join(format!("{}.toml", unique("begun")));
    std::fs::write(&file, "api = \"5/1m\"").unwrap();
    limiter.watch_policies(&file).await.unwrap();
    let (begun, address) = (Samples::now(), server.address());
    std::fs::remove_file(&file).unwrap();
    for (counter, label, value) in [
        ("ratelimit_policy_changes_total", "change", "refused"),
        ("ratelimit_connection_losses_total", "server", &address),
        ("ratelimit_outages_total", "server", &address),
    ] {
        assert!(begun.has(counter, &[(label, value)]), "{counter}");
    }
}

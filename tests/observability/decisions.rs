//! Every check is counted once, under what became of it and who answered.

use std::time::Duration;

use ratelimit_runtime::__private::DenyCache;
use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::testkit::{FakeClock, FaultyStore};
use ratelimit_runtime::{Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, rate_limit};

use crate::samples::{Samples, record};
use crate::support::unique;

/// How often a rule's checks came out like this.
fn count(rule: &Rule, outcome: &str, source: &str) -> f64 {
    let labels = [("rule", rule.name()), ("outcome", outcome), ("source", source)];
    Samples::now().sum("ratelimit_decisions_total", &labels)
}

/// How many checks of a rule were counted.
fn all(rule: &Rule) -> f64 {
    Samples::now().sum("ratelimit_decisions_total", &[("rule", rule.name())])
}

fn rule(name: &str, max: u64) -> Rule {
    Rule::named(unique(name), Limit::per_hour(max))
}

async fn ask(limiter: &RateLimiter, rule: &Rule, times: u32) {
    for _ in 0..times {
        let _ = limiter.acquire(rule, &Key::of("alice")).await;
    }
}

#[tokio::test]
async fn admissions_and_refusals_in_memory() {
    record();
    let (limiter, rule) = (RateLimiter::memory(), rule("memory", 20));
    ask(&limiter, &rule, 25).await;
    assert_eq!(count(&rule, "allowed", "store"), 18.0);
    assert_eq!(count(&rule, "near_limit", "store"), 2.0, "fewer than a tenth are left");
    assert_eq!(count(&rule, "denied", "store"), 5.0);
    assert_eq!(all(&rule), 25.0);
    let _ = limiter.peek(&rule, &Key::of("alice")).await;
    assert_eq!(all(&rule), 25.0, "to look is no check");
}

#[tokio::test]
async fn a_limit_of_few_is_near_with_its_last_admission() {
    record();
    let (limiter, rule) = (RateLimiter::memory(), rule("few", 3));
    ask(&limiter, &rule, 3).await;
    assert_eq!((count(&rule, "allowed", "store"), count(&rule, "near_limit", "store")), (2.0, 1.0));
}

#[tokio::test]
async fn blocks_and_shadow_mode() {
    record();
    let limiter = RateLimiter::memory();
    let (blocking, shadow) =
        (rule("block", 1).with_block(Duration::from_secs(600)), rule("shadow", 1).with_shadow(true));
    ask(&limiter, &blocking, 3).await;
    assert_eq!(count(&blocking, "blocked", "store"), 2.0);
    ask(&limiter, &shadow, 3).await;
    assert_eq!((count(&shadow, "shadow_denied", "store"), all(&shadow)), (2.0, 3.0));
}

#[tokio::test]
async fn what_the_deny_cache_answers() {
    record();
    let (limiter, rule) = (RateLimiter::with_store(DenyCache::new(MemoryStore::new())), rule("cached", 1));
    ask(&limiter, &rule, 12).await;
    assert_eq!((count(&rule, "denied", "store"), count(&rule, "denied", "deny_cache")), (1.0, 10.0));
}

#[tokio::test]
async fn what_becomes_of_checks_that_the_store_does_not_answer() {
    record();
    let store = FaultyStore::new(MemoryStore::new());
    store.fail_with(StoreErrorKind::Unavailable);
    let limiter = RateLimiter::builder().store(store.clone()).timeout(Duration::from_millis(20)).build().unwrap();
    let local = rule("local", 1);
    ask(&limiter, &local, 3).await;
    assert_eq!((count(&local, "near_limit", "fallback"), count(&local, "denied", "fallback")), (1.0, 2.0));
    let allow = rule("allow", 1).with_on_unavailable(OnUnavailable::Allow);
    ask(&limiter, &allow, 3).await;
    assert_eq!((count(&allow, "allowed", "nobody"), all(&allow)), (3.0, 3.0));
    let deny = rule("deny", 1).with_on_unavailable(OnUnavailable::Deny);
    ask(&limiter, &deny, 3).await;
    assert_eq!((count(&deny, "unavailable", "none"), all(&deny)), (3.0, 3.0));
    // An answer that is waited for in vain.
    store.hang();
    let hung = rule("hung", 1);
    ask(&limiter, &hung, 1).await;
    assert_eq!((count(&hung, "near_limit", "fallback"), all(&hung)), (1.0, 1.0));
    assert!(Samples::now().sum("ratelimit_store_seconds_count", &[("result", "timed_out")]) >= 1.0);
}

#[tokio::test]
async fn errors() {
    record();
    let limiter = RateLimiter::memory();
    let heavy = rule("heavy", 1).with_cost(2);
    let missing = rule("missing", 1).with_policy("nobody-has-set-it");
    ask(&limiter, &heavy, 2).await;
    ask(&limiter, &missing, 2).await;
    assert_eq!((count(&heavy, "cost_exceeds_limit", "none"), all(&heavy)), (2.0, 2.0));
    assert_eq!((count(&missing, "misconfigured", "none"), all(&missing)), (2.0, 2.0));
    // In shadow mode no error refuses a call.
    let shadow = rule("heavy-shadow", 1).with_cost(2).with_shadow(true);
    ask(&limiter, &shadow, 2).await;
    assert_eq!((count(&shadow, "allowed", "nobody"), all(&shadow)), (2.0, 2.0));
}

#[tokio::test]
async fn a_call_that_waits_is_counted_once() {
    record();
    let clock = FakeClock::new();
    let limiter = RateLimiter::with_store(MemoryStore::new().with_clock(clock.clone()));
    let rule = Rule::named(unique("waits"), Limit::per_second(1)).with_wait(Duration::from_millis(1));
    ask(&limiter, &rule, 2).await;
    assert_eq!((count(&rule, "near_limit", "store"), count(&rule, "denied", "store"), all(&rule)), (1.0, 1.0, 2.0));
}

/// The labels of the functions below: they have names of their own, because the attribute takes no
/// others.
#[rate_limit(name = "observability.strict", key = "<user>", window = "1h", max = 1)]
#[rate_limit(name = "observability.wide", window = "1h", max = 100)]
async fn stacked(user: &str) -> Result<(), RateLimitError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn admitted_stacked_rules_are_all_counted_and_of_a_refusal_the_refusing_rule() {
    record();
    let limiter = RateLimiter::memory();
    for _ in 0..3 {
        let _ = limiter.scope(stacked("alice")).await;
    }
    let samples = Samples::now();
    let of = |rule: &str, outcome: &str| {
        samples.sum("ratelimit_decisions_total", &[("rule", rule), ("outcome", outcome), ("source", "store")])
    };
    assert_eq!((of("observability.strict", "near_limit"), of("observability.strict", "denied")), (1.0, 2.0));
    assert_eq!((of("observability.wide", "allowed"), of("observability.wide", "denied")), (1.0, 0.0));
}

/// A recorder of a test's own thread, in the midst of others, and one that comes late: nothing is
/// kept of the first.
#[test]
fn the_current_recorder_is_asked_each_time() {
    let rule = rule("late", 100);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let limiter = RateLimiter::memory();
    let key = Key::of("alice");
    let by = |recorder: &metrics_exporter_prometheus::PrometheusRecorder| {
        metrics::with_local_recorder(recorder, || drop(runtime.block_on(limiter.acquire(&rule, &key))));
        recorder.handle().render()
    };
    let new = || metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let (first, second) = (new(), new());
    for (recorder, expected) in [(&first, 1), (&first, 2), (&second, 1), (&first, 3)] {
        let said = by(recorder);
        let line = said.lines().find(|line| line.contains(rule.name())).unwrap();
        assert!(line.ends_with(&format!(" {expected}")), "{line}");
    }
    record();
    let _ = runtime.block_on(limiter.acquire(&rule, &key));
    assert_eq!(all(&rule), 1.0);
}

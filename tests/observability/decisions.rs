//! Every check is counted once, by its outcome and by the source of the answer.

use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Feature, Request, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::{FakeClock, FaultyStore};
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, OnUnavailable, RateLimitError, RateLimiter, Rule, Source,
    Store, rate_limit,
};

use crate::log::Log;
use crate::samples::{Samples, record};
use crate::support::deny_cache::DenyCache;
use crate::support::layer::forward;
use crate::support::{settled, unique};

fn rule(name: &str, max: u64) -> Rule {
    Rule::named(unique(name), Limit::per_hour(max))
}

/// A layer that knows each answer: what it admits is of units that were taken ahead.
struct Knowing(MemoryStore);

impl Store for Knowing {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move {
            let mut verdict = self.0.acquire(request).await?;
            verdict.cached = true;
            Ok(verdict)
        })
    }

    forward!(0: peek, reset);
}

/// Asks as often as these outcomes, by these sources, are to be counted; nothing else is counted.
#[track_caller]
fn assert_counted(
    runtime: &tokio::runtime::Runtime,
    limiter: &RateLimiter,
    rule: &Rule,
    counted: &[(&str, &str, u32)],
) {
    let times: u32 = counted.iter().map(|(.., times)| times).sum();
    runtime.block_on(async {
        for _ in 0..times {
            let _ = limiter.acquire(rule, &Key::of("alice")).await;
        }
        let _ = limiter.peek(rule, &Key::of("alice")).await;
    });
    let samples = Samples::now();
    for (outcome, source, times) in counted {
        let labels = [
            ("rule", rule.name()),
            ("outcome", outcome),
            ("source", source),
        ];
        assert_eq!(
            samples.sum("ratelimit_decisions_total", &labels),
            f64::from(*times),
            "{labels:?}"
        );
    }
    assert_eq!(
        samples.sum("ratelimit_decisions_total", &[("rule", rule.name())]),
        f64::from(times),
        "{}",
        rule.name()
    );
}

#[test]
fn checks_are_counted_by_outcome_and_source_and_peeks_are_not() {
    record();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let memory = RateLimiter::memory();
    let cached = RateLimiter::with_store(DenyCache::new(MemoryStore::new()));
    let knowing = RateLimiter::with_store(Knowing(MemoryStore::new()));
    let stopped = RateLimiter::with_store(MemoryStore::new().with_clock(FakeClock::new()));
    for (limiter, rule, counted) in [
        // Fewer than a tenth are left, or the last of few.
        (
            &memory,
            rule("memory", 20),
            &[
                ("allowed", "store", 18),
                ("near_limit", "store", 2),
                ("denied", "store", 5),
            ][..],
        ),
        (
            &memory,
            rule("few", 3),
            &[("allowed", "store", 2), ("near_limit", "store", 1)],
        ),
        (
            &memory,
            rule("block", 1).with_block(Duration::from_secs(600)),
            &[("near_limit", "store", 1), ("blocked", "store", 2)],
        ),
        (
            &memory,
            rule("shadow", 1).with_shadow(true),
            &[("near_limit", "store", 1), ("shadow_denied", "store", 2)],
        ),
        // A call that waits is counted once.
        (
            &stopped,
            rule("waits", 1).with_wait(Duration::from_millis(1)),
            &[("near_limit", "store", 1), ("denied", "store", 1)],
        ),
        (
            &cached,
            rule("cached", 1),
            &[
                ("near_limit", "store", 1),
                ("denied", "store", 1),
                ("denied", "deny_cache", 10),
            ],
        ),
        (
            &knowing,
            rule("ahead", 20).with_prefetch(Duration::from_secs(1)),
            &[
                ("allowed", "grant", 18),
                ("near_limit", "grant", 2),
                ("denied", "deny_cache", 5),
            ],
        ),
        (
            &memory,
            rule("heavy", 1).with_cost(2),
            &[("cost_exceeds_limit", "none", 2)],
        ),
        (
            &memory,
            rule("heavy-shadow", 1).with_cost(2).with_shadow(true),
            &[("shadow_denied", "store", 2)],
        ),
        // In shadow mode no error refuses a call.
        (
            &memory,
            rule("lost", 1).with_policy("never-set").with_shadow(true),
            &[("allowed", "nobody", 2)],
        ),
        (
            &memory,
            rule("missing", 1).with_policy("nobody-has-set-it"),
            &[("misconfigured", "none", 2)],
        ),
    ] {
        assert_counted(&runtime, limiter, &rule, counted);
    }
}

#[test]
fn checks_that_the_store_does_not_answer_are_counted_by_the_answer_they_got() {
    record();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = FaultyStore::new(MemoryStore::new());
    store.fail_with(StoreErrorKind::Unavailable);
    let limiter = RateLimiter::builder()
        .store(store.clone())
        .timeout(Duration::from_millis(20))
        .build()
        .unwrap();
    for (policy, counted) in [
        (
            OnUnavailable::Local,
            &[("near_limit", "fallback", 1), ("denied", "fallback", 2)][..],
        ),
        (OnUnavailable::Allow, &[("allowed", "nobody", 3)]),
        (OnUnavailable::Deny, &[("unavailable", "none", 3)]),
    ] {
        assert_counted(
            &runtime,
            &limiter,
            &rule("away", 1).with_on_unavailable(policy),
            counted,
        );
    }
    store.hang();
    assert_counted(
        &runtime,
        &limiter,
        &rule("hung", 1),
        &[("near_limit", "fallback", 1)],
    );
    assert!(Samples::now().sum("ratelimit_store_seconds_count", &[("result", "timed_out")]) >= 1.0);
}

/// A layer that charges, on a store that gives no permits.
struct WithoutPermits {
    store: FaultyStore<MemoryStore>,
    capabilities: Capabilities,
}

impl Store for WithoutPermits {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.store.heal();
        let answer = self.store.acquire(request);
        self.store.fail();
        answer
    }

    forward!(store: peek, reset);

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

/// A call whose permit the policy decides is degraded, also where the store has charged its limits,
/// before that or behind it.
#[tokio::test]
async fn a_permit_that_the_store_does_not_answer_for_is_degraded_beside_limits_that_it_does() {
    record();
    let all = Capabilities::all();
    for (policy, source, word, capabilities) in [
        (OnUnavailable::Local, Source::Fallback, "fallback", all),
        (OnUnavailable::Allow, Source::Nobody, "nobody", all),
        (
            OnUnavailable::Local,
            Source::Fallback,
            "fallback",
            Capabilities::none().with(Algorithm::SlidingWindow, &[Feature::Concurrent]),
        ),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        store.fail();
        let limiter = RateLimiter::builder().store(WithoutPermits {
            store: store.clone(),
            capabilities,
        });
        let limiter = limiter.on_unavailable(policy).build().unwrap();
        let rule = rule("charged", 100).with_concurrent(1);
        let key = Key::global();
        let (log, _listening) = Log::listen();
        let permit = limiter.enter(&rule, &key).await.unwrap();
        let decision = permit.decision();
        assert!(decision.is_degraded() && !decision.is_in_flight_limit());
        assert_eq!((decision.source(), decision.remaining()), (source, 99));
        assert_eq!(log.count("degraded"), 1);
        let labels = [("rule", rule.name()), ("source", word)];
        let counted = Samples::now().sum("ratelimit_decisions_total", &labels);
        assert_eq!(counted, 1.0);

        let again = limiter.enter(&rule, &key).await;
        assert_eq!(again.is_ok(), policy == OnUnavailable::Allow);
        drop(again);
        store.heal();
        settled(&limiter).await;
        if capabilities == all {
            // The charge is the store's, and a second one stayed where the call ran.
            assert!(limiter.refund(&rule, &key, decision).await.unwrap());
            let charged = u64::from(policy == OnUnavailable::Allow);
            let left = limiter.peek(&rule, &key).await.unwrap().remaining();
            assert_eq!(left, 100 - charged);
        }
    }
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
        samples.sum(
            "ratelimit_decisions_total",
            &[("rule", rule), ("outcome", outcome), ("source", "store")],
        )
    };
    assert_eq!(
        (
            of("observability.strict", "near_limit"),
            of("observability.strict", "denied")
        ),
        (1.0, 2.0)
    );
    assert_eq!(
        (
            of("observability.wide", "allowed"),
            of("observability.wide", "denied")
        ),
        (1.0, 0.0)
    );
}

/// Recorders of one thread take turns, and the global one comes late: no counter of the first is
/// kept.
#[test]
fn the_current_recorder_is_asked_each_time() {
    let rule = rule("late", 100);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let limiter = RateLimiter::memory();
    let key = Key::of("alice");
    let by = |recorder: &metrics_exporter_prometheus::PrometheusRecorder| {
        metrics::with_local_recorder(recorder, || {
            drop(runtime.block_on(limiter.acquire(&rule, &key)));
        });
        recorder.handle().render()
    };
    let new = || metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let (first, second) = (new(), new());
    for (recorder, expected) in [(&first, 1), (&first, 2), (&second, 1), (&first, 3)] {
        let said = by(recorder);
        let line = said
            .lines()
            .find(|line| line.contains(rule.name()))
            .unwrap();
        assert!(line.ends_with(&format!(" {expected}")), "{line}");
    }
    record();
    let _ = runtime.block_on(limiter.acquire(&rule, &key));
    assert_eq!(
        Samples::now().sum("ratelimit_decisions_total", &[("rule", rule.name())]),
        1.0
    );
}

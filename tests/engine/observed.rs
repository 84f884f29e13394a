//! Every decision is seen once, admitted or refused.

use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{Limit, MemoryStore, RateLimiter, Source, observe, rate_limit};

use crate::Outcome;

#[rate_limit(key = "<user>", window = "60s", max = 1, name = "per_user")]
async fn one(user: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<user>", limits = ["2/60s", "9/1h"], name = "outer")]
#[rate_limit(key = "<user>", window = "1d", max = 1, name = "inner")]
async fn stacked(user: &str) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<user>", window = "60s", max = 1, name = "shadow", shadow)]
async fn shadowed(user: &str) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn admissions_and_refusals_are_collected_with_their_limits() {
    RateLimiter::memory()
        .scope(async {
            let (out, decisions) = observe::collect(one("alice")).await;
            assert!(out.is_ok());
            let [admitted] = decisions.as_slice() else { panic!("{decisions:?}") };
            assert!(admitted.decision().is_allowed());
            assert_eq!((admitted.decision().rule(), admitted.limits()), ("per_user", &[Limit::per_minute(1)][..]));

            let (out, decisions) = observe::collect(one("alice")).await;
            let [refused] = decisions.as_slice() else { panic!("{decisions:?}") };
            assert_eq!(out.unwrap_err().decision(), Some(refused.decision()));
        })
        .await;
}

#[tokio::test]
async fn a_stack_gives_a_decision_for_each_limit_or_its_refusal() {
    RateLimiter::memory()
        .scope(async {
            let (_, decisions) = observe::collect(stacked("alice")).await;
            let rules: Vec<_> = decisions.iter().map(|seen| seen.decision().rule()).collect();
            assert_eq!(rules, ["outer", "inner"]);
            assert_eq!(decisions.first().unwrap().limits().len(), 2);
            let (_, decisions) = observe::collect(stacked("alice")).await;
            let [refused] = decisions.as_slice() else { panic!("{decisions:?}") };
            assert_eq!(refused.decision().rule(), "inner");
        })
        .await;
}

#[tokio::test]
async fn shadow_and_degraded_decisions_are_seen_as_what_they_are() {
    let store = FaultyStore::new(MemoryStore::new());
    let limiter = RateLimiter::with_store(store.clone());
    limiter
        .scope(async {
            shadowed("alice").await.unwrap();
            let (out, decisions) = observe::collect(shadowed("alice")).await;
            let [seen] = decisions.as_slice() else { panic!("{decisions:?}") };
            assert!(out.is_ok() && seen.is_shadow() && !seen.decision().is_allowed());
            store.fail();
            let (_, decisions) = observe::collect(one("alice")).await;
            let [seen] = decisions.as_slice() else { panic!("{decisions:?}") };
            assert_eq!(seen.decision().source(), Source::Fallback);
        })
        .await;
}

#[tokio::test]
async fn collectors_nest_and_keep_to_their_own_future() {
    RateLimiter::memory()
        .scope(async {
            let (((), inner), outer) = observe::collect(async {
                one("a").await.unwrap();
                let inner = observe::collect(async {
                    one("b").await.unwrap();
                    tokio::task::yield_now().await;
                    one("c").await.unwrap();
                })
                .await;
                one("d").await.unwrap();
                inner
            })
            .await;
            assert_eq!((inner.len(), outer.len()), (2, 2));
            one("e").await.unwrap();
        })
        .await;
}

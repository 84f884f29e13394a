//! Collectors see every decision once, admitted or refused.

use ratelimit_runtime::{Limit, RateLimiter, observe, rate_limit};

use crate::Outcome;

#[rate_limit(key = "<user>", window = "60s", max = 1, name = "per_user")]
async fn one(user: &str) -> Outcome {
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

//! Collectors see every decision once, admitted or refused.

use ratelimit_runtime::{RateLimiter, observe, rate_limit};

use crate::Outcome;

#[rate_limit(key = "<user>", window = "60s", max = 1, name = "per_user")]
async fn one(user: &str) -> Outcome {
    Ok(())
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

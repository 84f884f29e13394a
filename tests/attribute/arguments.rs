//! What the arguments of the attribute do at run time.
#![allow(
    clippy::unused_async,
    clippy::manual_async_fn,
    clippy::needless_pass_by_value,
    reason = "the shapes are the point"
)]

use super::{Outcome, alone, is_exceeded};
use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimiter, Rule, key, rate_limit};

#[rate_limit(key = "<id>", window = "1m", max = quota)]
async fn dynamic(id: u32, quota: i64) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn max_may_be_an_expression_and_change_between_calls() {
    alone(async {
        assert!(dynamic(1, 2).await.is_ok());
        assert!(is_exceeded(&dynamic(1, 1).await));
        assert!(dynamic(1, 2).await.is_ok());
        assert!(is_exceeded(&dynamic(1, 2).await));
        assert!(dynamic(1, i64::MAX).await.is_ok());
        for nothing in [0, -1, i64::MIN] {
            let refused = dynamic(1, nothing).await;
            assert!(is_exceeded(&refused), "{refused:?}");
            let refused = refused.unwrap_err();
            assert_eq!(refused.retry_after(), None);
            assert_eq!(refused.decision().unwrap().limit(), 0);
        }
    })
    .await;
}

/// Ten gibibytes a minute, in parts of three.
#[rate_limit(
    window = "1m",
    max = (10 * 1024 * 1024 * 1024) as u64,
    cost = 3 * (1 << 30),
    algorithm = "token_bucket"
)]
async fn bytes() -> Outcome {
    Ok(())
}

#[tokio::test]
async fn numbers_of_literals_alone_do_not_overflow() {
    alone(async {
        for _ in 0..3 {
            bytes().await.unwrap();
        }
        let refused = bytes().await.unwrap_err();
        assert_eq!(refused.decision().unwrap().limit(), 10_737_418_240);
    })
    .await;
}

#[rate_limit(key = "<id>", window = "1m", max = max_of(id), when = *on, name = "conditional")]
async fn conditional(id: u32, on: &bool) -> Outcome {
    Ok(())
}

fn max_of(id: u32) -> u128 {
    assert_ne!(id, 13, "evaluated although `when` is false");
    1
}

#[tokio::test]
async fn when_false_nothing_is_evaluated_or_charged() {
    alone(async {
        assert!(conditional(13, &false).await.is_ok());
        assert!(conditional(1, &false).await.is_ok());
        assert!(conditional(1, &true).await.is_ok());
        assert!(is_exceeded(&conditional(1, &true).await));
        assert!(conditional(1, &false).await.is_ok());
    })
    .await;
}

#[rate_limit(key = "<id>", window = "1m", max = 1, name = "shared name")]
async fn one(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, name = "shared name")]
async fn two(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "61s", max = 1, name = "shared name")]
async fn three(id: u32) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn functions_that_share_a_name_share_budgets_and_must_agree_on_the_window() {
    alone(async {
        assert!(one(1).await.is_ok());
        assert!(is_exceeded(&two(1).await));
        let error = three(1).await.unwrap_err();
        assert!(
            matches!(&error, RateLimitError::Misconfigured(_)),
            "{error:?}"
        );
        assert!(error.to_string().contains("shared name"), "{error}");
    })
    .await;
}

#[rate_limit(key = email.to_lowercase(), window = "60s", max = 1, name = "normalised")]
async fn by_expression(email: &str) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_key_expression_reaches_the_bucket_of_the_same_value() {
    let limiter = RateLimiter::memory();
    let rule = Rule::new("normalised", Limit::per_minute(1));
    limiter
        .scope(async {
            assert!(by_expression("Alice").await.is_ok());
            assert!(is_exceeded(&by_expression("ALICE").await));
        })
        .await;
    let email = "alice";
    assert_eq!(key!("<email>"), Key::of("alice"));
    assert!(
        !limiter
            .peek(&rule, &key!("<email>"))
            .await
            .unwrap()
            .is_allowed()
    );
    assert!(limiter.reset(&rule, &key!("{email}")).await.unwrap());
    assert!(!limiter.reset(&rule, &key!("<email>")).await.unwrap());
    assert!(
        limiter
            .peek(&rule, &key!("<email>"))
            .await
            .unwrap()
            .is_allowed()
    );
}

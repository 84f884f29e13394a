#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

use crate::{Outcome, only_failures_count};

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn failures(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = |outcome| matches!(outcome, Err(error) if !error.is::<RateLimitError>()))]
async fn closure(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = Result::is_err)]
async fn path(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = "ok")]
async fn successes(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = "all")]
async fn all(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[tokio::test]
async fn runs() {
    only_failures_count(failures).await;
    only_failures_count(closure).await;
    only_failures_count(path).await;
    let refused = |outcome: Outcome<u8>| outcome.is_err_and(|error| error.is::<RateLimitError>());
    assert!(!refused(successes("?").await));
    assert!(successes("1").await.is_ok());
    assert!(refused(successes("1").await));
    assert!(!refused(all("?").await));
    assert!(refused(all("1").await));
}

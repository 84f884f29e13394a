#![deny(warnings)]

use std::fmt::Display;

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn boxed(text: &str) -> Outcome<Box<dyn Display + Send>> {
    if text.is_empty() {
        return Ok(Box::new("empty"));
    }
    Ok(Box::new(text.parse::<u8>()?))
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn slice(text: &str) -> Outcome<&'static [u8]> {
    text.parse::<u8>()?;
    Ok(&[1, 2, 3])
}

/// What is collected into is known from the return type alone.
#[rate_limit(window = "60s", max = 1, count = "err")]
async fn collected(text: &str) -> Outcome<Vec<u8>> {
    text.split(',').map(|part| part.parse().map_err(Into::into)).collect()
}

#[tokio::test]
async fn runs() {
    only_failures_count(boxed).await;
    only_failures_count(slice).await;
    only_failures_count(collected).await;
}

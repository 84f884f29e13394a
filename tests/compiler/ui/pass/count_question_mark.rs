#![deny(warnings)]

use std::error::Error;
use std::num::ParseIntError;

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

fn number(text: &str) -> Result<u8, ParseIntError> {
    text.parse()
}

/// The error is converted on its way out, as it is without the attribute.
#[rate_limit(window = "60s", max = 1, count = "err")]
async fn converted(text: &str) -> Outcome<u8> {
    let number = number(text)?;
    std::future::ready(number.checked_add(1)).await.ok_or("too large")?;
    Ok(number)
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn nested(text: &str) -> Outcome<u8> {
    let doubled = async { Ok::<_, Box<dyn Error + Send + Sync>>(2 * number(text)?) };
    let tripled = || Some(3 * number(text).ok()?);
    Ok(doubled.await? + tripled().unwrap_or_default())
}

#[tokio::test]
async fn runs() {
    only_failures_count(converted).await;
    only_failures_count(nested).await;
}

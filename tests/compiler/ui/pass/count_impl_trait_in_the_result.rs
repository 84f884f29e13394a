#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn parse(text: &str) -> Outcome<impl std::fmt::Display> {
    let number: u8 = text.parse()?;
    Ok(number)
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| parse(text).await).await;
}

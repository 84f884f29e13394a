#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[rate_limit(window = "60s", max = 1, count = "err")]
#[rate_limit(limits = ["3/60s", "4/1d"], count = "ok")]
#[rate_limit(window = "60s", max = 9, algorithm = "token_bucket", cost = 2)]
async fn parse(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[tokio::test]
async fn runs() {
    only_failures_count(parse).await;
}

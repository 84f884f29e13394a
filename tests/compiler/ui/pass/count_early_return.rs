#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn parse(text: &str) -> Outcome<u8> {
    for digit in 0..10 {
        if text == digit.to_string() {
            return Ok(digit);
        }
    }
    if text.len() == 1 {
        return Err("not a digit".into());
    }
    Err("too long")?
}

#[tokio::test]
async fn runs() {
    only_failures_count(parse).await;
}

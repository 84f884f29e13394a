#![deny(warnings)]

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[rate_limit(key = "<text>", window = "60s", max = 1, count = "err")]
async fn parse(mut text: String, mut tries: u8) -> Outcome<u8> {
    while tries > 0 {
        text.push('1');
        tries -= 1;
    }
    Ok(text.parse()?)
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| {
        // One key for all.
        let tries = if text == "1" { 1 } else { 4 };
        parse("1".to_owned(), tries).await
    })
    .await;
}

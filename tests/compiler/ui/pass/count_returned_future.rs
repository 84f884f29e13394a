#![deny(warnings)]

use std::pin::Pin;

use ratelimit_runtime::rate_limit;

use crate::{Outcome, only_failures_count};

#[rate_limit(key = "<email>", window = "60s", max = 1, count = "err")]
fn opaque(email: &str, text: &str) -> impl Future<Output = Outcome<u8>> + Send {
    let text = text.to_owned();
    async move { Ok(text.parse()?) }
}

#[rate_limit(key = "<email>", window = "60s", max = 1, count = "err")]
fn boxed<'a>(email: &'a str, text: &'a str) -> Pin<Box<dyn Future<Output = Outcome<u8>> + Send + 'a>> {
    Box::pin(async move { Ok(text.parse()?) })
}

#[tokio::test]
async fn runs() {
    only_failures_count(async |text| opaque("a", text).await).await;
    only_failures_count(async |text| boxed("a", text).await).await;
}

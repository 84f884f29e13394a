#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 1, on_refused = |_error| None)]
async fn send(email: &str) -> Option<u8> {
    Some(1)
}

fn log(error: RateLimitError) {
    assert!(error.retry_after().is_some());
    drop(error);
}

#[rate_limit(window = "60s", max = 1, on_refused = log)]
async fn tick() {}

async fn both() -> Result<(), ()> {
    tick().await;
    send("a").await.map(drop).ok_or(())
}

#[tokio::test]
async fn runs() {
    assert!(both().await.is_ok());
    assert!(both().await.is_err());
}

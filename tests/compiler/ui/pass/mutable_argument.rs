#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn send(mut email: String) -> Result<String, RateLimitError> {
    email.push('!');
    Ok(email)
}

#[tokio::test]
async fn runs() {
    assert!(send(String::from("a")).await.is_ok());
    assert!(send(String::from("a")).await.is_err());
}

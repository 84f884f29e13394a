#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome<T = ()> = Result<T, MailError>;

#[derive(Debug)]
struct MailError;

impl From<RateLimitError> for MailError {
    fn from(_: RateLimitError) -> Self {
        Self
    }
}

#[rate_limit(key = "<email>", window = "60s", max = 1)]
async fn send(email: &str) -> Outcome {
    let number: u8 = "1".parse().map_err(|_| MailError)?;
    if number == 1 {
        return Ok(());
    }
    Err(MailError)
}

#[tokio::test]
async fn runs() {
    assert!(send("a").await.is_ok());
    assert!(send("a").await.is_err());
}

#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>:<count>", window = "60s", max = limit)]
async fn send(email: &str, count: u8, limit: u8) -> Result<(), RateLimitError> {
    fn email_length() -> usize {
        fn count() -> usize {
            1
        }
        count()
    }
    use std::collections::HashMap as Result;
    let map: Result<&str, usize> = Result::from([(email, email_length())]);
    assert_eq!(map.len(), 1);
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a", 1, 1).await.is_ok());
    assert!(send("a", 1, 1).await.is_err());
}

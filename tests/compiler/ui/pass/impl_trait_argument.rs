#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

use ratelimit_runtime::KeyPart;

#[rate_limit(key = "<email>:<list>", window = "60s", max = 1)]
async fn send(email: impl AsRef<str> + KeyPart, list: &(impl KeyPart + ?Sized)) -> Result<(), RateLimitError> {
    Ok(())
}

#[tokio::test]
async fn runs() {
    assert!(send("a", &[1, 2][..]).await.is_ok());
    assert!(send("a", &[1, 2][..]).await.is_err());
}

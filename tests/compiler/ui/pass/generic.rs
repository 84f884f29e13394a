#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

use ratelimit_runtime::KeyPart;

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn send<T, U: Default>(id: T) -> Result<U, RateLimitError>
where
    T: KeyPart,
{
    Ok(U::default())
}

#[tokio::test]
async fn runs() {
    assert!(send::<_, String>("a").await.is_ok());
    assert!(send::<_, u8>(String::from("a")).await.is_err());
}

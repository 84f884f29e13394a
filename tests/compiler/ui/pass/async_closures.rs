#![deny(warnings)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn by_reference(id: u32, f: impl AsyncFn(u32) -> u32) -> Result<u32, RateLimitError> {
    Ok(f(id).await)
}

#[rate_limit(key = "<id>", window = "60s", max = 1, count = "ok")]
async fn once<F>(id: u32, f: F) -> Result<u32, RateLimitError>
where
    F: AsyncFnOnce(u32) -> u32,
{
    Ok(f(id).await)
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn dynamic(id: u32, f: &mut (dyn FnMut(u32) -> u32 + Send)) -> Result<u32, RateLimitError> {
    Ok(f(id))
}

#[tokio::test]
async fn runs() {
    assert!(by_reference(1, async |id| id + 1).await.is_ok());
    assert!(by_reference(1, async |id| id + 1).await.is_err());
    assert!(once(1, async |id| id + 1).await.is_ok());
    assert!(once(1, async |id| id + 1).await.is_err());
    assert!(dynamic(1, &mut |id| id + 1).await.is_ok());
    assert!(dynamic(1, &mut |id| id + 1).await.is_err());
}

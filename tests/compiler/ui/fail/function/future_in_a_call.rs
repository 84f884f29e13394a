use ratelimit_runtime::{RateLimitError, rate_limit};

async fn retry<F: Future<Output = Result<(), RateLimitError>>>(future: F) -> Result<(), RateLimitError> {
    future.await.or(Ok(()))
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
pub fn send(id: u32) -> impl Future<Output = Result<(), RateLimitError>> {
    retry(async move { Ok(()) })
}

fn main() {}

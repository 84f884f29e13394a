use ratelimit_runtime::{RateLimitError, rate_limit};

#[async_trait::async_trait]
trait Mail {
    async fn send(&self, email: &str) -> Result<(), RateLimitError>;
}

#[async_trait::async_trait]
impl Mail for u8 {
    #[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
    async fn send(&self, email: &str) -> Result<(), RateLimitError> {
        email.len()
    }
}

fn main() {
    let _ = <u8 as Mail>::send;
}

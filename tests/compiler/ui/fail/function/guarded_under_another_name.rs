use ratelimit_runtime::rate_limit as limit;
use ratelimit_runtime::{RateLimitError, rate_limit};

#[limit(key = "<id>", window = "60s", max = 1)]
#[limit(key = "<id>", window = "1d", max = 20)]
pub async fn twice(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, name = "minute")]
#[limit(key = "<id>", window = "1d", max = 20, name = "day")]
pub async fn below(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

#[limit(key = "<id>", window = "60s", max = 1, count = "err")]
#[limit(key = "<id>", window = "1d", max = 20, name = "day")]
pub async fn counted(id: u32) -> Result<(), RateLimitError> {
    Ok(())
}

#[async_trait::async_trait]
pub trait Send {
    #[rate_limit(key = "<id>", window = "60s", max = 1)]
    #[limit(key = "<id>", window = "1d", max = 20)]
    async fn send(&self, id: u32) -> Result<(), RateLimitError> {
        Ok(())
    }
}

fn main() {}

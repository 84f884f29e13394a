use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "user:%s", window = "60s", max = 3)]
pub async fn printf(id: u32) -> Result<(), RateLimitError> {
    let _ = id;
    Ok(())
}

#[rate_limit(key = "$1", window = "60s", max = 3)]
pub async fn dollar(id: u32) -> Result<(), RateLimitError> {
    let _ = id;
    Ok(())
}

#[rate_limit(key = "#p0", window = "60s", max = 3)]
pub async fn spel(id: u32) -> Result<(), RateLimitError> {
    let _ = id;
    Ok(())
}

#[rate_limit(key = "args[0]", window = "60s", max = 3)]
pub async fn index(id: u32) -> Result<(), RateLimitError> {
    let _ = id;
    Ok(())
}

#[rate_limit(key = "user_id", window = "60s", max = 3)]
pub async fn column(id: u32) -> Result<(), RateLimitError> {
    let _ = id;
    Ok(())
}

#[rate_limit(key = "login", window = "60s", max = 3)]
pub async fn label() -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit("3/1m")]
pub async fn limit(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit("60s", max = 3)]
pub async fn window(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit("60", key = "<email>")]
pub async fn number(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(3, 60s)]
pub async fn both(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}

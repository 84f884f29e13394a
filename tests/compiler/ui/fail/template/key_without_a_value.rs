use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = { email.to_lowercase(); }, window = "60s", max = 3)]
pub async fn block(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = drop(email.to_lowercase()), window = "60s", max = 3)]
pub async fn call(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = String::new(), window = "60s", max = 3)]
pub async fn empty(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = dbg!("<email>"), window = "60s", max = 3)]
pub async fn printed(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}

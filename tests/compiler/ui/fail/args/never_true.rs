use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, when = false)]
pub async fn literal(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, when = !true)]
pub async fn negated(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, when = email.is_empty() && false)]
pub async fn switched_off(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}

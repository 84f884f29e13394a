use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, when = "true", shadow = "false")]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, when = "!email.is_empty()", shadow = 1)]
pub async fn again(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}

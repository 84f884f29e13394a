use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = ("<emial>"), window = ("60"), max = (0))]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = { "email" }, window = "60s", max = -(3))]
pub async fn again(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}

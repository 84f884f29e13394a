use ratelimit_runtime::{RateLimitError, rate_limit};

fn tenant(email: &str) -> Result<u32, std::num::ParseIntError> {
    email.parse()
}

#[rate_limit(key = tenant(email)?, window = "60s", max = 3)]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = email.split_once('@')?, window = "60s", max = 3)]
pub async fn option(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}

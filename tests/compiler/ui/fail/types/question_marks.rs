use ratelimit_runtime::{RateLimitError, rate_limit};


fn number(email: &str) -> Result<u32, std::num::ParseIntError> {
    email.parse()
}

fn tenant(_: &str) -> Result<u32, RateLimitError> {
    Ok(1)
}

#[rate_limit(key = number(email)?, window = "60s", max = 3)]
async fn another_error(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = email.split_once('@')?, window = "60s", max = 3)]
async fn option(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = tenant(email)?, window = "60s", max = 3, on_refused = |_error| ())]
async fn nothing(email: &str) {}

#[rate_limit(key = tenant(email)?, window = "60s", max = 3, on_refused = |_error| 0)]
async fn integer(email: &str) -> u32 {
    1
}

fn main() {}

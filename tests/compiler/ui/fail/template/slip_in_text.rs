use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "emial", window = "60s", max = 3)]
pub async fn swapped(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = "login:userId", window = "60s", max = 3)]
pub async fn another_case(user_id: u64) -> Result<(), RateLimitError> {
    let _ = user_id;
    Ok(())
}

fn main() {}

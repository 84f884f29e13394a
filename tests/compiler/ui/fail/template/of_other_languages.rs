use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "${email}", window = "60s", max = 3)]
pub async fn shell(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = "login:#{email.len()}", window = "60s", max = 3)]
pub async fn ruby(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn wrong_type(email: &str) -> Result<(), RateLimitError> {
    email.len()
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn returns_wrong_type(email: &str) -> Result<(), RateLimitError> {
    if email.is_empty() {
        return email.len();
    }
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn unknown_name(email: &str) -> Result<(), RateLimitError> {
    Ok(emial)
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn without_tail(email: &str) -> Result<(), RateLimitError> {
    email.len();
}

fn main() {}

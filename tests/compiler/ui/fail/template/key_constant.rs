use ratelimit_runtime::{RateLimitError, rate_limit};

pub const EMAIL_KEY: &str = "<email>";

#[rate_limit(key = crate::EMAIL_KEY, window = "60s", max = 3)]
pub async fn send0(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = 42, window = "60s", max = 3)]
pub async fn send1(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = b"<email>", window = "60s", max = 3)]
pub async fn send2(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = concat!("email", ":", 1), window = "60s", max = 3)]
pub async fn send3(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = format!("email"), window = "60s", max = 3)]
pub async fn send4(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = (crate::EMAIL_KEY, 7), window = "60s", max = 3)]
pub async fn send5(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

#[rate_limit(key = String::from("email"), window = "60s", max = 3)]
pub async fn send6(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {}

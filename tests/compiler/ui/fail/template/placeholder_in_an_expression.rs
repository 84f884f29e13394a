use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = ("<email>", ip), window = "60s", max = 3)]
pub async fn send0(email: &str, ip: u32) -> Result<(), RateLimitError> {
    let _ = (email, ip);
    Ok(())
}

#[rate_limit(key = ("{email}", ip), window = "60s", max = 3)]
pub async fn send1(email: &str, ip: u32) -> Result<(), RateLimitError> {
    let _ = (email, ip);
    Ok(())
}

#[rate_limit(key = format!("<email>"), window = "60s", max = 3)]
pub async fn send2(email: &str, ip: u32) -> Result<(), RateLimitError> {
    let _ = (email, ip);
    Ok(())
}

#[rate_limit(key = concat!("<email>"), window = "60s", max = 3)]
pub async fn send3(email: &str, ip: u32) -> Result<(), RateLimitError> {
    let _ = (email, ip);
    Ok(())
}

#[rate_limit(key = ("<emial>", ip), window = "60s", max = 3)]
pub async fn send4(email: &str, ip: u32) -> Result<(), RateLimitError> {
    let _ = (email, ip);
    Ok(())
}

#[rate_limit(key = format!("<email>:{ip}"), window = "60s", max = 3)]
pub async fn send5(email: &str, ip: u32) -> Result<(), RateLimitError> {
    let _ = (email, ip);
    Ok(())
}

fn main() {}

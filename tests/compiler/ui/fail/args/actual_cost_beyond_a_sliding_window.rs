use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(
    key = "<email>",
    window = "1m",
    max = 100_000,
    cost = 1,
    actual_cost = |sent: &Result<u64, RateLimitError>| sent.as_ref().map_or(0, |bytes| *bytes)
)]
async fn send(email: &str) -> Result<u64, RateLimitError> {
    let _ = email;
    Ok(1)
}

fn main() {
    let _ = send("a");
}

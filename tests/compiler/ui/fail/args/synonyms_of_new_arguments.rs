use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(quotas = ["3/60s"], strategy = "token_bucket", capacity = 5, weight = 2, ban = "10m", max_wait = "2s")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", policy = "login", limits = ["3/60s"], window = "1d", max = 20, block = "10m", wait = "2s")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(policy = "", algorithm = "gcra", burst = 0, cost = -1, count = "error", block = "0s", wait = "2")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

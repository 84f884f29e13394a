use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", limits = ["0/60s", "3", "3/1x"])]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

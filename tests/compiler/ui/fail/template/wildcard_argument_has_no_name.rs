use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(_: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send("a");
}

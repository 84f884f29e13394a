use ratelimit_runtime::{RateLimitError, rate_limit};

const WINDOW: &str = "60s";

#[rate_limit(key = "<email>", window = WINDOW, max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

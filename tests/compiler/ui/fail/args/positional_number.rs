use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(3, window = "60s")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

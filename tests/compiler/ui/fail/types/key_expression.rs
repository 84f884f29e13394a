use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = (email, std::time::Instant::now()), window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}

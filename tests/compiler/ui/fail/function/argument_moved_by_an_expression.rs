use ratelimit_runtime::{RateLimitError, rate_limit};

fn digest(_: String) -> u64 {
    7
}

#[rate_limit(key = digest(email), window = "60s", max = 3)]
async fn send(email: String) -> Result<(), RateLimitError> {
    drop(email);
    Ok(())
}

fn main() {
    let _ = send(String::new());
}

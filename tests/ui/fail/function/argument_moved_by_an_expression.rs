use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = email.into_bytes(), window = "60s", max = 3)]
async fn send(email: String) -> Result<(), RateLimitError> {
    drop(email);
    Ok(())
}

fn main() {
    let _ = send(String::new());
}

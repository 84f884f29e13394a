use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", policy = 5)]
async fn send(email: &str, plan: &str) -> Result<(), RateLimitError> {
    let _ = (email, plan);
    Ok(())
}

fn main() {
    let _ = send("a", "gold");
}

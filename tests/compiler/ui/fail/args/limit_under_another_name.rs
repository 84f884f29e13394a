use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", rate = "3/60s")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

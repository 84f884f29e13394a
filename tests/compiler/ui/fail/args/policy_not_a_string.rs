use ratelimit_runtime::{RateLimitError, rate_limit};

const LOGIN: &str = "login";

#[rate_limit(key = "<email>", policy = LOGIN)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

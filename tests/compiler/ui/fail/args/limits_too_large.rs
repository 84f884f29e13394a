use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", limits = ["9007199254740992/60s"])]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

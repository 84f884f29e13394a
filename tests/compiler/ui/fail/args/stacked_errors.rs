use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60", max = 3)]
#[rate_limit(key = "<email>", window = "1d", max = 0)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

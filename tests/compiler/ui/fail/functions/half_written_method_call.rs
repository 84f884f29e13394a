use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    email.
}

fn main() {
    let _ = send("a");
}

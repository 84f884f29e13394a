use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) {
    let _ = email;
}

fn main() {
    let _: Result<_, RateLimitError> = Ok(send("a"));
}

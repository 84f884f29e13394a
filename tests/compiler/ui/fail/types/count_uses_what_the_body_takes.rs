use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |outcome| outcome.is_err() && email.is_empty())]
async fn send(email: String) -> Result<(), RateLimitError> {
    drop(email);
    Ok(())
}

fn main() {
    let _ = send;
}

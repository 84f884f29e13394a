use ratelimit_runtime::{RateLimitError, rate_limit};

fn judge(outcome: &Option<()>) -> bool {
    outcome.is_some()
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = judge)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}

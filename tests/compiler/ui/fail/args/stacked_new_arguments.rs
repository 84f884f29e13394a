use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(limits = ["3/60s", "0/1d"], count = "errors")]
#[rate_limit(key = "<email>", window = "60s", max = 3, cost = 4)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

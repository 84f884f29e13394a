use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(limits, policy =, algorithm, burst, cost =, block, wait)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

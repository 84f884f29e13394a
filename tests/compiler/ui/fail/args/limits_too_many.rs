use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", limits = ["1/1s", "2/2s", "3/3s", "4/4s", "5/5s", "6/6s", "7/7s", "8/8s", "9/9s"])]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

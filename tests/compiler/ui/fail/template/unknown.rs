use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<mail_address>:<user>", window = "60s", max = 3)]
async fn send(user: u32, email: &str) -> Result<(), RateLimitError> {
    let _ = (user, email);
    Ok(())
}

fn main() {
    let _ = send(1, "a");
}

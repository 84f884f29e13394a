use ratelimit_runtime::{RateLimitError, rate_limit};

struct User;

#[rate_limit(key = "<id>:<user>", window = "60s", max = 3)]
async fn send(id: u32, user: &User) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}

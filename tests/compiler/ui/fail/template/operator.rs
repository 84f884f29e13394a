use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<a + b>", window = "60s", max = 3)]
async fn send(a: u8, b: u8) -> Result<(), RateLimitError> {
    let _ = (a, b);
    Ok(())
}

fn main() {
    let _ = send(1, 2);
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<price>", window = "60s", max = 3)]
async fn send(price: f64) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<pair.99999999999>", window = "60s", max = 3)]
async fn send(pair: (u8, u8)) -> Result<(), RateLimitError> {
    let _ = pair;
    Ok(())
}

fn main() {
    let _ = send((1, 2));
}

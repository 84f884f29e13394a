use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<id>", window = "60s", max = 3)]
async fn send<T>(id: T) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send(1);
}

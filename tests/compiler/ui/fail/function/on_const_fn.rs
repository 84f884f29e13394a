use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3)]
const fn limit() -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = limit();
}

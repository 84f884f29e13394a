use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<pair.0>", window = "60s", max = 3)]
async fn send((tenant, email): (u32, &str)) -> Result<(), RateLimitError> {
    let _ = (tenant, email);
    Ok(())
}

fn main() {
    let _ = send((1, "a"));
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<tenant>:
            <emial>:
            <tenant>", window = "60s", max = 3)]
async fn send(tenant: u32, email: &str) -> Result<(), RateLimitError> {
    let _ = (tenant, email);
    Ok(())
}

fn main() {
    let _ = send(1, "a");
}

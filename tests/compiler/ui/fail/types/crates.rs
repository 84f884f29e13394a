use ratelimit_runtime::{KeyPart, RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, crate = ::limits)]
async fn unknown(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, crate = ::tokio)]
async fn another_crate(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[derive(KeyPart)]
#[key(crate = ::limits)]
struct Account {
    id: u32,
}

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

async fn quota() -> u32 {
    5
}

#[rate_limit(key = "<user>", concurrent = quota().await)]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

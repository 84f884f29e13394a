use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<user>", concurrent = 5, lease = 30s)]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<user>", max_concurrent = 5)]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<user>", window = "month", max = 500, algorithm = "token_bucket")]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

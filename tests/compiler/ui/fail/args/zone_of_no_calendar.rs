use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<user>", window = "1d", max = 500, zone = "Europe/Berlin")]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

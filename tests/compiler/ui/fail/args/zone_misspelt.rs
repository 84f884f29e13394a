use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<user>", window = "day", max = 500, algorithm = "fixed_window", zone = "Europe/Berlni")]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

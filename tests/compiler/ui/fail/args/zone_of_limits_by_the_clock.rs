use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<user>", limits = ["5/1m", "500/1d"], algorithm = "fixed_window", zone = "Europe/Berlin")]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<user>", limits = ["500/day", "300/day"], algorithm = "fixed_window")]
async fn export(user: &str) -> Result<(), RateLimitError> {
    let _ = user;
    Ok(())
}

fn main() {
    let _ = export("a");
}

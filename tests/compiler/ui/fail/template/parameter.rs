use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>/<SHARD>", window = "60s", max = 3)]
async fn send<const SHARD: usize>(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send::<1>("a");
}

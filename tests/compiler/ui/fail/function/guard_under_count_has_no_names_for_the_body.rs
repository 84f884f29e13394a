use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    drop(__ratelimit_reservation);
    drop(__ratelimit_outcome);
    let _: Option<()> = __ratelimit_never;
    Ok(())
}

fn main() {
    let _ = send;
}

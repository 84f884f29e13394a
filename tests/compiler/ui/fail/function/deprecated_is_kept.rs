#![deny(deprecated)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[deprecated = "use `deliver`"]
#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

fn main() {
    let _ = send("a");
}

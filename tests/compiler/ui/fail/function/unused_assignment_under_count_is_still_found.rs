#![deny(unused_assignments)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let mut length = email.len();
    assert_ne!(length, 0);
    length = 0;
    Ok(())
}

fn main() {
    let _ = send;
}

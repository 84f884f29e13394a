#![deny(dead_code)]

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

struct Mailer;

impl Mailer {
    #[rate_limit(window = "60s", max = 3)]
    async fn send(&self) -> Result<(), RateLimitError> {
        Ok(())
    }
}

fn main() {
    let _ = Mailer;
}

#![deny(dead_code)]

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Outcome { Ok(()) }

#[rate_limit(window = "60s", max = 3, count = "err")]
async fn send_under_count() -> Outcome { Ok(()) }

struct Mailer;

impl Mailer {
    #[rate_limit(window = "60s", max = 3)]
    async fn send(&self) -> Outcome { Ok(()) }
}

fn main() {
    let _ = Mailer;
}

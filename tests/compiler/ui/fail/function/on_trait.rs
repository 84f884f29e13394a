use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3)]
trait Mailer {
    async fn send(&self) -> Result<(), RateLimitError>;
}

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

struct Mailer;

#[rate_limit(window = "60s", max = 3)]
impl Mailer {
    async fn send(&self) -> Result<(), RateLimitError> {
        Ok(())
    }
}

fn main() {
    let _ = Mailer.send();
}

use ratelimit_runtime::{RateLimitError, rate_limit};

trait Mailer {
    #[rate_limit(key = "<email>", window = "60s", max = 3)]
    async fn send(email: &str) -> Result<(), RateLimitError>;
}

struct Smtp;

impl Mailer for Smtp {
    async fn send(_: &str) -> Result<(), RateLimitError> {
        Ok(())
    }
}

fn main() {
    let _ = Smtp::send("a");
}

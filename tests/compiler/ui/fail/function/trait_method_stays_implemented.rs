use ratelimit_runtime::{RateLimitError, rate_limit};

trait Mailer {
    async fn send(&self, email: &str) -> Result<(), RateLimitError>;
}

struct Smtp;

impl Mailer for Smtp {
    #[rate_limit(key = "<emial>", window = "60s", max = 3)]
    async fn send(&self, email: &str) -> Result<(), RateLimitError> {
        let _ = email;
        Ok(())
    }
}

fn main() {
    let _ = Smtp.send("a");
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[async_trait::async_trait]
trait Mailer {
    async fn send(&self, to: (u32, &str)) -> Result<(), RateLimitError>;
}

struct Smtp;

#[async_trait::async_trait]
impl Mailer for Smtp {
    #[rate_limit(key = "<self.id>:<tenant>:<emial>", window = "60s", max = 3)]
    async fn send(&self, (tenant, email): (u32, &str)) -> Result<(), RateLimitError> {
        let _ = (tenant, email);
        Ok(())
    }
}

fn main() {
    let _ = Smtp.send((1, "a"));
}

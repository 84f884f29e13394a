use ratelimit_runtime::{RateLimitError, rate_limit};

#[async_trait::async_trait]
trait Mailer {
    async fn send(&self, email: &str);
}

struct Smtp(Option<RateLimitError>);

#[async_trait::async_trait]
impl Mailer for Smtp {
    #[rate_limit(key = "<email>", window = "60s", max = 3)]
    async fn send(&self, email: &str) {
        let _ = email;
    }
}

fn main() {
    let _ = Smtp(None).send("a");
}

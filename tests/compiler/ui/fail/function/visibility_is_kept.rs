use ratelimit_runtime::RateLimitError;

mod mailer {
    #[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3)]
    async fn send(email: &str) -> Result<(), super::RateLimitError> {
        Ok(())
    }
}

fn main() {
    let _ = mailer::send("a");
}

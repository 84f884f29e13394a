use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = email.len())]
pub fn send(email: &str) -> impl Future<Output = Result<(), RateLimitError>> {
    let email = email.len();
    async move {
        let _ = email;
        Ok(())
    }
}

fn main() {}

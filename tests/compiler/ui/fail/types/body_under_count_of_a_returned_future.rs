use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
fn send(email: &str) -> impl Future<Output = Result<(), RateLimitError>> {
    async move { email.len() }
}

fn main() {
    let _ = send;
}

use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3)]
fn send() -> impl Future<Output = Result<(), RateLimitError>> {
    async { Ok(()) }
}

fn main() {
    let _ = send();
}

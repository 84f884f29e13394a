use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<id>", window = "60s", max = 1)]
pub fn send(id: u32, fast: bool) -> std::pin::Pin<Box<dyn Future<Output = Result<(), RateLimitError>> + Send>> {
    if fast {
        return Box::pin(async move { Ok(()) });
    }
    Box::pin(async move { Ok(()) })
}

fn main() {}

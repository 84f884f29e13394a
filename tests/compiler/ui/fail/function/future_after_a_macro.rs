use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! leave_if {
    ($fast:ident) => {
        if $fast {
            return Box::pin(async move { Ok(()) });
        }
    };
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
pub fn send(id: u32, fast: bool) -> std::pin::Pin<Box<dyn Future<Output = Result<(), RateLimitError>> + Send>> {
    leave_if!(fast);
    Box::pin(async move { Ok(()) })
}

fn main() {}

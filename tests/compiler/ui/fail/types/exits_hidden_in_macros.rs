use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! or_leave {
    ($name:ident) => {
        if $name.is_empty() { return Ok(()) } else { $name }
    };
}

#[rate_limit(key = or_leave!(email), window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}

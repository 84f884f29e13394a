use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3)]
const LIMIT: u32 = 3;

fn main() {
    let _: Result<u32, RateLimitError> = Ok(LIMIT);
}

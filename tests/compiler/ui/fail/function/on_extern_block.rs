use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3)]
unsafe extern "C" {
    safe fn abs(number: i32) -> i32;
}

fn main() {
    let _: Result<i32, RateLimitError> = Ok(abs(1));
}

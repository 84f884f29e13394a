use ratelimit_runtime::{RateLimitError, rate_limit};

macro_rules! or_leave {
    ($name:ident) => {
        if $name.is_empty() { return Ok(()) } else { $name }
    };
}

macro_rules! or_return {
    ($number:ident, $exit:expr) => {
        if $number == 0 { $exit } else { $number }
    };
}

macro_rules! leave {
    ($number:ident) => {
        or_return!($number, { return })
    };
}

macro_rules! five {
    ($number:ident) => {
        or_return!($number, { return 5 })
    };
}

#[rate_limit(key = or_leave!(email), window = "60s", max = 3)]
pub async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = leave!(id), window = "60s", max = 3, on_refused = drop)]
pub async fn nothing(id: u32) {}

#[rate_limit(window = "60s", max = five!(max), on_refused = |_error| 0)]
pub async fn number(max: u64) -> u64 {
    max
}

fn main() {}

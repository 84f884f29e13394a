use ratelimit_runtime::{RateLimitError, rate_limit};

#[allow(unused_macros)]
macro_rules! mine {
    ($name:ident => $exit:expr) => {
        if $name.is_empty() { $exit } else { $name }
    };
}

#[rate_limit(key = format!("{email}{}", { return Ok(()) }), window = "60s", max = 3)]
pub async fn exit_in_format(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = mine!(email => return Ok(())), window = "60s", max = 3)]
pub async fn exit(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(key = mine!(email => lookup(email)?), window = "60s", max = 3)]
pub async fn question_mark(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}

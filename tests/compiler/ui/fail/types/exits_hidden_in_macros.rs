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

macro_rules! or_else {
    ($name:ident => $exit:expr) => {
        if $name.is_empty() { $exit } else { $name }
    };
}

#[rate_limit(key = or_else!(email => return Ok(())), window = "60s", max = 3)]
async fn given_to_the_macro(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn lookup(_: &str) -> Result<&str, RateLimitError> {
    Ok("a")
}

#[rate_limit(key = or_else!(email => lookup(email)?), window = "60s", max = 3)]
async fn question_mark(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}

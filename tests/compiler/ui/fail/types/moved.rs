use ratelimit_runtime::{RateLimitError, rate_limit};

fn digest(_: String) -> u64 {
    7
}

#[rate_limit(key = digest(email), window = "60s", max = 3)]
async fn by_the_key(email: String) -> Result<(), RateLimitError> {
    drop(email);
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |outcome| outcome.is_err() && email.is_empty())]
async fn by_the_body(email: String) -> Result<(), RateLimitError> {
    drop(email);
    Ok(())
}

#[rate_limit(key = "<email.into_bytes()>", window = "60s", max = 3)]
async fn by_a_method_of_a_template(email: String) -> Result<(), RateLimitError> {
    drop(email);
    Ok(())
}

fn main() {}

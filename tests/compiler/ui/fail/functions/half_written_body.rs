use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn path(email: &str) -> Result<(), RateLimitError> {
    std::
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
pub async fn operand(email: &str) -> Result<(), RateLimitError> {
    let _ = email.len();
    1 +
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn value(email: &str) -> Result<(), RateLimitError> {
    let _length =
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub fn future(email: &str) -> impl Future<Output = Result<(), RateLimitError>> {
    async move {
        let _length =
    }
}

#[rate_limit(key = "<emial>", window = "60s", max = 3)]
pub async fn misspelt(email: &str) -> Result<(), RateLimitError> {
    let _length =
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn dot_in_a_statement(email: &str) -> Result<(), RateLimitError> {
    let _length = email.;
    Ok(())
}

fn main() {}

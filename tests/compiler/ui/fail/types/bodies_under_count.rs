use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn assigns_an_argument(email: &str, attempts: u32) -> Result<(), RateLimitError> {
    attempts += 1;
    assert_ne!(attempts, 3);
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn borrows_a_local(email: &str) -> Result<&str, RateLimitError> {
    let lower = email.to_lowercase();
    Ok(lower.as_str())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn breaks(email: &str) -> Result<(), RateLimitError> {
    if email.is_empty() {
        break;
    }
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, shadow = { break })]
async fn breaks_in_an_argument(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

#[async_trait::async_trait]
trait Mail {
    #[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
    async fn send(&self, email: &str) -> Result<(), RateLimitError> {
        email.len()
    }
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
fn returned_future(email: &str) -> impl Future<Output = Result<(), RateLimitError>> {
    async move { email.len() }
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn wrong_type(email: &str) -> Result<(), RateLimitError> {
    email.len()
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn question_mark(email: &str) -> Result<(), RateLimitError> {
    let _: u8 = email.parse()?;
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = |length| *length == 0, on_refused = |_error| 0)]
async fn question_mark_without_result(email: &str) -> u8 {
    email.parse::<u8>()?
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn unknown_name(email: &str) -> Result<(), RateLimitError> {
    emial.len();
    Ok(())
}

fn main() {}

use ratelimit_runtime::{RateLimitError, rate_limit};

struct SendError;

fn refused(_: String) -> u32 {
    429
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn error_is_a_string(email: &str) -> Result<(), String> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn error_without_from(email: &str) -> Result<(), SendError> {
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn impl_trait(email: &str) -> impl std::fmt::Display {
    "sent"
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn not_a_result(email: &str) -> u32 {
    1
}

#[rate_limit(window = "60s", max = 3)]
fn returned_future() -> impl Future<Output = u32> {
    async move { 1 }
}

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = refused)]
async fn on_refused_takes_another_type(email: &str) -> u32 {
    200
}

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = |error| error.to_string())]
async fn on_refused_of_wrong_type(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {}

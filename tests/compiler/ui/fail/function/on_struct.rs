use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(window = "60s", max = 3)]
pub struct Mailer;

fn main() {
    let _: Result<Mailer, RateLimitError> = Ok(Mailer);
}

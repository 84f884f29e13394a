use ratelimit_runtime::{RateLimitError, rate_limit};

struct Mailer;

#[rate_limit(window = "60s", max = 3)]
unsafe impl Send for Mailer {}

fn main() {
    let _: Result<Mailer, RateLimitError> = Ok(Mailer);
}

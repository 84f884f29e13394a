use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = (email, __ratelimit_check, __ratelimit_rule, &__RATELIMIT_RULE), window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send;
}

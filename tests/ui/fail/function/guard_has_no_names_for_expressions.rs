use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = (__ratelimit_check, __ratelimit_rule, &__RATELIMIT_RULE), window = "60s", max = 3)]
async fn send() -> Result<(), RateLimitError> {
    Ok(())
}

fn main() {
    let _ = send();
}

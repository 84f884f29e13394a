use ratelimit_runtime::{RateLimitError, rate_limit};

#[rate_limit(key = "<email>", window = "60s", max = 3)]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = (__ratelimit_run, __ratelimit_check, __ratelimit_rule, &__RATELIMIT_RULE);
    Ok(())
}

fn main() {
    let _ = send("a");
}

//! No name of the guard can be used, and the function's own visibility counts.
use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;


#[rate_limit(key = (email, __ratelimit_check, __ratelimit_rule, &__RATELIMIT_RULE), window = "60s", max = 3)]
async fn expressions(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
async fn body_under_count(email: &str) -> Outcome {
    drop(__ratelimit_reservation);
    drop(__ratelimit_outcome);
    let _: Option<()> = __ratelimit_never;
    Ok(())
}

#[rate_limit(window = "60s", max = 3, count = |_| __ratelimit_outcome.is_err())]
async fn closure() -> Outcome { Ok(()) }

mod mailer {
    #[ratelimit_runtime::rate_limit(key = "<email>", window = "60s", max = 3)]
    async fn send(email: &str) -> super::Outcome { Ok(()) }
}

fn main() {
    let _ = mailer::send("a");
}

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<(), RateLimitError>;

fn tenant(_: &str) -> Result<u32, RateLimitError> {
    Ok(1)
}

#[rate_limit(key = lookup(email).await, window = "60s", max = 3)]
async fn await_in_key(email: &str) -> Outcome { Ok(()) }

#[rate_limit(
    window = "60s",
    max = most().await,
    limiter = limiter().await,
    concurrent = most().await,
    cost = weight().await,
    shadow = dry().await,
    on_refused = return,
)]
async fn await_everywhere(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, when = "true", shadow = "false")]
async fn send(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, when = "!email.is_empty()", shadow = 1)]
async fn again(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = format!("{email}{}", { return Ok(()) }), window = "60s", max = 3)]
async fn exit_in_format(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, on_refused = "deny")]
async fn expression_as_string(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = ratelimit_runtime::RateLimiter::memory())]
async fn memory(id: u32) -> Outcome { Ok(()) }

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = limiter.unwrap_or_else(ratelimit_runtime::RateLimiter::memory))]
async fn otherwise(id: u32, limiter: Option<ratelimit_runtime::RateLimiter>) -> Outcome { Ok(()) }

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = std::sync::LazyLock::new(ratelimit_runtime::RateLimiter::memory))]
async fn lazy(id: u32) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, when = false)]
async fn literal(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, when = email.is_empty() && false)]
async fn switched_off(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, shadow, on_refused = |error| Err(error))]
async fn on_refused_never_used(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, when = { return Ok(()) })]
async fn return_in_when(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = |email: &str| email.len(), policy = |_| "plan", cost = || 2, when = |_| true)]
async fn closures(email: &str) -> Outcome { Ok(()) }

fn main() {}

//! What lints find without the attribute, they find with it.
#![deny(warnings)]

use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimiter, Rule, rate_limit};

type Outcome = Result<(), RateLimitError>;


#[deprecated = "use `deliver`"]
#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn send(email: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn unreachable(email: &str) -> Outcome {
    return Ok(());
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
pub async fn unreachable_under_count(email: &str) -> Outcome {
    return Ok(());
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn argument(email: &str, subject: &str) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
pub async fn argument_under_count(email: &str, name: &str) -> Outcome {
    let variable = email.len();
    let mut assigned = email.len();
    assert_ne!(assigned, 0);
    assigned = 0;
    email.parse::<u8>();
    Ok(())
}

#[rate_limit(key = "<email>", window = "60s", max = 3)]
pub async fn mutable(mut email: String) -> Outcome { Ok(()) }

#[rate_limit(key = "<email>", window = "60s", max = 3, count = "err")]
pub async fn mutable_under_count(mut email: String) -> Outcome { Ok(drop(email)) }

#[rate_limit(window = "60s", max = 3)]
pub async fn results() -> Outcome {
    argument("a", "b").await;
    argument("a", "b");
    Ok(())
}

static SEND: Rule = Rule::new("send", Limit::per_minute(3));

/// `?` reads the refusal: a decision need not be read after it.
pub async fn by_hand(limiter: &RateLimiter, key: &Key) -> Outcome {
    limiter.acquire(&SEND, key).await?;
    limiter.acquire(&SEND, key).await;
    Ok(())
}

fn main() {
    let _ = send("a");
}

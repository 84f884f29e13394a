#![deny(warnings)]

//! Attributes that rewrite the function, above and below.

use ratelimit_runtime::{RateLimitError, rate_limit};

type Outcome = Result<u32, RateLimitError>;

#[async_recursion::async_recursion]
#[rate_limit(key = "<n>", window = "60s", max = 1)]
async fn recursion_above(n: u32) -> Outcome {
    if n == 0 { Ok(0) } else { recursion_above(n - 1).await }
}

#[rate_limit(key = "<n>", window = "60s", max = 1)]
#[async_recursion::async_recursion]
async fn recursion_below(n: u32) -> Outcome {
    if n == 0 { Ok(0) } else { recursion_below(n - 1).await }
}

#[trait_variant::make(Send)]
trait Rewritten {
    async fn required(&self, n: u32) -> Outcome;
}

struct Service;

impl Rewritten for Service {
    #[rate_limit(key = "<n>", window = "60s", max = 1)]
    async fn required(&self, n: u32) -> Outcome {
        Ok(n)
    }
}

#[rate_limit(window = "60s", max = 1)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    Ok(0)
}

#[test]
fn main_is_limited() {
    assert!(main().is_ok());
    assert!(main().is_err());
}

#[tokio::test]
async fn runs() {
    assert!(recursion_above(1).await.is_ok());
    assert!(recursion_above(0).await.is_err());
    assert!(recursion_below(1).await.is_ok());
    assert!(recursion_below(0).await.is_err());
    assert!(Service.required(1).await.is_ok());
    assert!(Service.required(1).await.is_err());
}

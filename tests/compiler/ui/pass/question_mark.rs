#![deny(warnings)]
#![allow(clippy::manual_async_fn, reason = "the shape that is tried")]

use std::num::ParseIntError;

use ratelimit_runtime::{RateLimitError, rate_limit};

#[derive(Debug)]
enum Failure {
    Malformed,
    Limited,
}

impl From<ParseIntError> for Failure {
    fn from(_: ParseIntError) -> Self {
        Self::Malformed
    }
}

impl From<RateLimitError> for Failure {
    fn from(_: RateLimitError) -> Self {
        Self::Limited
    }
}

fn id(text: &str) -> Result<u32, ParseIntError> {
    text.parse()
}

#[rate_limit(key = id(text)?, window = "60s", max = 1)]
async fn by_id(text: &str) -> Result<(), Failure> {
    Ok(())
}

#[rate_limit(key = format!("{}", id(text)?), window = "60s", max = 1, count = "err")]
async fn counted(text: &str) -> Result<(), Failure> {
    Err(Failure::Malformed)
}

#[rate_limit(key = id(text)?, window = "60s", max = 1)]
fn future(text: &str) -> impl Future<Output = Result<(), Failure>> + Send {
    async move { Ok(()) }
}

#[rate_limit(when = id(text)? > 0, window = "60s", max = id(text)?, concurrent = id(text)?, cost = id(text)?, shadow = id(text)? > 9)]
#[rate_limit(key = (text, id(text)?), window = "1h", max = 1)]
async fn everywhere(text: &str) -> Result<(), Failure> {
    Ok(())
}

#[rate_limit(key = text.chars().next()?, window = "60s", max = 1, on_refused = |_| None)]
async fn option(text: &str) -> Option<char> {
    Some('x')
}

#[async_trait::async_trait]
trait Service {
    #[rate_limit(key = (self.tenant(), id(text)?), window = "60s", max = 1)]
    async fn call(&self, text: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn tenant(&self) -> u32;
}

struct Tenant;

impl Service for Tenant {
    fn tenant(&self) -> u32 {
        7
    }
}

#[tokio::test]
async fn runs() {
    assert!(matches!(by_id("x").await, Err(Failure::Malformed)));
    assert!(matches!(counted("x").await, Err(Failure::Malformed)));
    assert!(matches!(future("x").await, Err(Failure::Malformed)));
    assert!(matches!(everywhere("x").await, Err(Failure::Malformed)));
    assert!(matches!(Tenant.call("x").await, Err(Failure::Malformed)));
    assert!(option("").await.is_none());

    assert!(by_id("1").await.is_ok());
    assert!(matches!(counted("1").await, Err(Failure::Malformed)));
    assert!(future("1").await.is_ok());
    assert!(everywhere("1").await.is_ok());
    assert!(Tenant.call("1").await.is_ok());
    assert!(option("1").await.is_some());

    assert!(matches!(by_id("1").await, Err(Failure::Limited)));
    assert!(matches!(counted("1").await, Err(Failure::Limited)));
    assert!(matches!(future("1").await, Err(Failure::Limited)));
    assert!(matches!(everywhere("1").await, Err(Failure::Limited)));
    assert!(matches!(Tenant.call("1").await, Err(Failure::Limited)));
    assert!(option("1").await.is_none());
}

#![deny(warnings)]

use std::fmt::Display;

use ratelimit_runtime::{RateLimitError, rate_limit};

use crate::Outcome;

/// What a digit costs is itself.
fn digit(outcome: &Outcome<u8>) -> u8 {
    outcome.as_ref().map_or(0, |digit| *digit)
}

#[rate_limit(window = "60s", max = 10, cost = 1, actual_cost = digit)]
async fn path(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 10, cost = text.len(), actual_cost = |out: &Outcome<u8>| i64::from(digit(out)))]
async fn signed(text: &str) -> Outcome<u8> {
    if text.is_empty() {
        return Err("nothing".into());
    }
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 10, cost = 1, actual_cost = |out| out.as_ref().map_or(0, |text| text.to_string().len() * 5))]
async fn opaque(text: &str) -> Outcome<impl Display> {
    let number: u8 = text.parse()?;
    Ok(number)
}

#[rate_limit(window = "60s", max = 10, cost = 1, actual_cost = digit)]
fn returned(text: &str) -> impl Future<Output = Outcome<u8>> + Send {
    let text = text.to_owned();
    async move { Ok(text.parse()?) }
}

#[async_trait::async_trait]
trait Parse: Sync {
    fn weigh(&self, outcome: &Outcome<u8>) -> usize;

    #[rate_limit(window = "60s", max = 10, cost = 1, actual_cost = |outcome| self.weigh(outcome))]
    async fn parse(&self, text: &str) -> Outcome<u8> {
        Ok(text.parse()?)
    }
}

struct Parser;

impl Parse for Parser {
    fn weigh(&self, outcome: &Outcome<u8>) -> usize {
        digit(outcome).into()
    }
}

#[rate_limit(window = "60s", max = 10, cost = 1, actual_cost = digit, name = "digits")]
#[rate_limit(window = "60s", max = 2, count = "ok", name = "numbers")]
async fn stacked(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

/// Calls a function that admits ten, of which a call takes five.
async fn ten_are_admitted<T>(call: impl AsyncFn(&'static str) -> Outcome<T>) {
    for _ in 0..3 {
        let failed = call("?").await.err().unwrap();
        assert!(!failed.is::<RateLimitError>(), "what fails costs nothing: {failed}");
    }
    for _ in 0..2 {
        assert!(call("5").await.is_ok());
    }
    let refused = call("5").await.err().unwrap();
    assert!(refused.is::<RateLimitError>(), "{refused}");
}

#[tokio::test]
async fn runs() {
    ten_are_admitted(path).await;
    ten_are_admitted(signed).await;
    ten_are_admitted(async |text| opaque(text).await).await;
    ten_are_admitted(async |text| returned(text).await).await;
    ten_are_admitted(async |text| Parser.parse(text).await).await;
    ten_are_admitted(stacked).await;
}

//! `count` with functions of every shape: it alone puts the body into a block of its own. No lint
//! fires because of it.
#![deny(clippy::manual_async_fn, clippy::unused_self)]

use std::fmt::Display;
use std::future::ready;
use std::num::ParseIntError;
use std::pin::Pin;
use std::process::exit;
use std::sync::Arc;

use async_trait::async_trait;
use ratelimit_runtime::{RateLimitError, RateLimiter, rate_limit};

#[derive(Debug)]
enum Failure {
    NotANumber,
    Limited,
}

impl From<ParseIntError> for Failure {
    fn from(_: ParseIntError) -> Self {
        Self::NotANumber
    }
}

impl From<RateLimitError> for Failure {
    fn from(_: RateLimitError) -> Self {
        Self::Limited
    }
}

type Outcome<T> = Result<T, Failure>;

/// A unit of a limit is taken by a failure alone: two calls succeed, one fails, and one is refused.
macro_rules! one_failure {
    ($call:expr) => {
        assert!($call("1").await.is_ok());
        assert!($call("1").await.is_ok());
        assert!(
            matches!($call("?").await, Err(Failure::NotANumber)),
            "the body has run and failed"
        );
        assert!(
            matches!($call("1").await, Err(Failure::Limited)),
            "the unit is taken"
        );
    };
}

#[rate_limit(
    key = "<id>", limits = ["1/60s", "20/1d"], algorithm = "fixed_window", block = "10m",
    count = "err"
)]
async fn only_in_the_key(id: u32, text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = quota, cost = weight, when = on, shadow = dry, count = "err")]
async fn only_in_expressions(
    text: &str,
    quota: u8,
    weight: i64,
    on: bool,
    dry: bool,
) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(
    window = "60s", max = 1, count = |outcome| matches!(outcome, Err(Failure::NotANumber))
)]
async fn early_return(text: &str) -> Outcome<u8> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse()?;
    Ok(number)
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn coerced(text: &str) -> Outcome<Box<dyn Display + Send>> {
    if text.is_empty() {
        return Ok(Box::new("empty"));
    }
    Ok(Box::new(text.parse::<u8>()?))
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn opaque(text: &str) -> Outcome<impl Display + use<>> {
    let number: u8 = text.parse()?;
    Ok(number)
}

/// The type that is collected into is known from the return type alone.
#[rate_limit(
    window = "60s", max = 1, count = |outcome| matches!(outcome, Err(Failure::NotANumber))
)]
async fn inferred(text: &str) -> Result<Vec<u8>, Failure> {
    text.split(' ')
        .map(|part| part.parse().map_err(|_error| Failure::NotANumber))
        .collect()
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn borrowed(text: &str) -> Outcome<&str> {
    let _number: u8 = text.parse()?;
    Ok(text.trim())
}

#[rate_limit(key = "<a>:<c>", window = "60s", max = 1, count = "err")]
async fn patterns((a, text): (u8, &str), [c, ..]: [u8; 3], _: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = "err")]
async fn mutable(mut text: String) -> Outcome<u8> {
    text.insert(0, '0');
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = "err")]
#[rate_limit(limits = ["100/1h"], count = "ok")]
async fn stacked(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[tracing::instrument]
#[rate_limit(window = "60s", max = 1, count = "err")]
async fn instrumented_above(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = "err")]
#[tracing::instrument]
async fn instrumented_below(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 2, count = "err")]
async fn never_returns_here(early: bool) -> Outcome<()> {
    if early {
        return Ok(());
    }
    Err(Failure::NotANumber)?;
    loop {
        ready(()).await;
    }
}

#[rate_limit(window = "60s", max = 2, count = "err")]
async fn diverges() -> Outcome<()> {
    exit(1)
}

#[allow(clippy::manual_async_fn, reason = "the shape is the point")]
#[rate_limit(key = "<id>", window = "60s", max = 1, count = "err")]
fn returns_a_future(id: u32, text: &str) -> impl Future<Output = Outcome<u8>> + Send {
    async move { Ok(text.parse()?) }
}

#[rate_limit(window = "60s", max = 1, count = "err")]
fn returns_a_box(text: &str) -> Pin<Box<dyn Future<Output = Outcome<u8>> + Send + '_>> {
    Box::pin(async move { Ok(text.parse()?) })
}

struct Service {
    base: u32,
    calls: u32,
}

impl Service {
    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_ref(&self, text: &str) -> Outcome<u32> {
        Ok(u32::from_str_radix(text, self.base)?)
    }

    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_mut(&mut self, text: &str) -> Outcome<u32> {
        self.calls += 1;
        Ok(u32::from_str_radix(text, self.base)?)
    }

    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_value(self, text: &str) -> Outcome<u32> {
        let Self { base, .. } = self;
        Ok(u32::from_str_radix(text, base)?)
    }

    #[rate_limit(key = "<self.base>", window = "60s", max = 1, count = "err")]
    async fn by_arc(self: Arc<Self>, text: &str) -> Outcome<u32> {
        Ok(u32::from_str_radix(text, self.base)?)
    }

    /// The closure sees arguments that are `Copy`, also when the body uses them.
    #[rate_limit(
        key = "<self.base>", window = "60s", max = 1, count = |outcome| self.judge(outcome)
    )]
    async fn judged(&self, text: &str) -> Outcome<u32> {
        assert!(!self.judge(&Ok(1)));
        Ok(u32::from_str_radix(text, self.base)?)
    }

    const fn judge(&self, outcome: &Outcome<u32>) -> bool {
        self.base == 10 && outcome.is_err()
    }
}

#[async_trait]
trait Parse {
    async fn parse(&self, to: (u32, &str), text: &str) -> Outcome<u8>;

    #[rate_limit(window = "60s", max = 1, count = |outcome| self.counts(outcome))]
    async fn provided(&self, text: &str) -> Outcome<u8> {
        Ok(text.parse()?)
    }

    fn counts(&self, outcome: &Outcome<u8>) -> bool {
        outcome.is_err()
    }
}

#[async_trait]
impl Parse for Service {
    #[rate_limit(
        key = "<self.base>:<tenant>:<email>",
        window = "60s",
        max = 1,
        count = "err"
    )]
    async fn parse(&self, (tenant, email): (u32, &str), text: &str) -> Outcome<u8> {
        Ok(text.parse()?)
    }
}

macro_rules! limited {
    ($name:ident, $count:expr) => {
        #[rate_limit(window = "60s", max = 1, count = $count)]
        async fn $name(text: &str) -> Outcome<u8> {
            Ok(text.parse()?)
        }
    };
}

limited!(made_by_a_macro, |outcome| matches!(
    outcome,
    Err(Failure::NotANumber)
));

const fn service() -> Service {
    Service { base: 10, calls: 0 }
}

#[tokio::test]
async fn only_failures_count_whatever_a_function_takes_and_returns() {
    let calls = async {
        one_failure!(async |text| only_in_the_key(1, text).await);
        one_failure!(async |text| only_in_expressions(text, 2, 2, true, false).await);
        one_failure!(early_return);
        one_failure!(coerced);
        one_failure!(async |text| opaque(text).await);
        one_failure!(inferred);
        one_failure!(borrowed);
        one_failure!(async |text| patterns((1, text), [3; 3], "").await);
        one_failure!(async |text: &str| mutable(text.to_owned()).await);
        one_failure!(stacked);
        one_failure!(instrumented_above);
        one_failure!(instrumented_below);
        assert!(never_returns_here(true).await.is_ok());
        assert!(matches!(
            never_returns_here(false).await,
            Err(Failure::NotANumber)
        ));
        drop(diverges());
    };
    RateLimiter::memory().scope(calls).await;
}

#[tokio::test]
async fn only_failures_count_in_methods_and_functions_that_return_futures() {
    let calls = async {
        one_failure!(async |text| returns_a_future(1, text).await);
        one_failure!(returns_a_box);
        one_failure!(async |text| service().by_ref(text).await);
        one_failure!(async |text| service().by_mut(text).await);
        one_failure!(async |text| service().by_value(text).await);
        one_failure!(async |text| Arc::new(service()).by_arc(text).await);
        one_failure!(async |text| service().judged(text).await);
        one_failure!(async |text| service().parse((1, "a"), text).await);
        one_failure!(async |text| service().provided(text).await);
        one_failure!(made_by_a_macro);
    };
    RateLimiter::memory().scope(calls).await;
}

#[rate_limit(window = "60s", max = 1, count = "err", on_refused = |error| Err(error.to_string()))]
async fn refused_by_hand(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_error| "failed".to_owned())
}

#[rate_limit(window = "60s", max = 1, count = |outcome| *outcome == 0, on_refused = |_| 99)]
async fn no_result(number: u8) -> u8 {
    number
}

#[tokio::test]
async fn on_refused_makes_the_outcome_of_a_call_that_is_counted() {
    let calls = async {
        assert_eq!(refused_by_hand("1").await, Ok(1));
        assert_eq!(refused_by_hand("?").await, Err("failed".to_owned()));
        assert!(
            refused_by_hand("1")
                .await
                .is_err_and(|error| error.contains("too many"))
        );
        assert_eq!(
            [no_result(1).await, no_result(0).await, no_result(1).await],
            [1, 0, 99]
        );
    };
    RateLimiter::memory().scope(calls).await;
}

//! What `count` does to a body, and every argument beside it, under the same lints.

use std::fmt::Display;
use std::num::ParseIntError;
use std::pin::Pin;
use std::sync::Arc;

use ratelimit_runtime::{KeyPart, Limit, Policy, RateLimitError, RateLimiter, rate_limit};

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

#[rate_limit(key = "<id>", limits = ["1/60s", "20/1d"], algorithm = "fixed_window", block = "10m", count = "err")]
async fn only_in_the_key(id: u32, text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = quota, cost = weight, when = on, shadow = dry, count = "err")]
async fn only_in_expressions(text: &str, quota: u8, weight: i64, on: bool, dry: bool) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(window = "1h", max = 9, algorithm = "leaky_bucket", burst = 3, cost = 3, wait = "1s", count = "err")]
async fn bucket(text: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(policy = "strict", count = Result::is_err, on_refused = |_error| Err(Failure::Limited))]
async fn policy(text: &str) -> Result<u8, Failure> {
    Ok(text.parse()?)
}

#[rate_limit(window = "60s", max = 1, count = |outcome| matches!(outcome, Err(Failure::NotANumber)))]
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

#[rate_limit(key = "<a>:<c>", window = "60s", max = 1, count = "err")]
async fn patterns((a, text): (u8, &str), [c, ..]: [u8; 3], _: &str) -> Outcome<u8> {
    Ok(text.parse()?)
}

#[rate_limit(key = "<id>", window = "60s", max = 1, count = "err")]
async fn generic<T: KeyPart + Send + Sync, const N: usize>(id: T, pad: [u8; N], text: &str) -> Outcome<usize> {
    let number: usize = text.parse()?;
    Ok(pad.len().min(number))
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
    async fn by_arc(self: Arc<Self>, text: &str) -> Outcome<u32> {
        Ok(u32::from_str_radix(text, self.base)?)
    }
}

#[async_trait::async_trait]
trait Parse {
    async fn parse(&self, to: (u32, &str), text: &str) -> Outcome<u8>;
}

#[async_trait::async_trait]
impl Parse for Service {
    #[rate_limit(key = "<self.base>:<tenant>:<email>", window = "60s", max = 1, count = "err")]
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

limited!(made_by_a_macro, |outcome| matches!(outcome, Err(Failure::NotANumber)));

/// The outcomes of a call that succeeds, one that fails and one that comes too late.
macro_rules! one_failure {
    ($call:expr) => {
        assert!($call("1").await.is_ok());
        assert!(matches!($call("?").await, Err(Failure::NotANumber)));
        assert!(matches!($call("1").await, Err(Failure::Limited)));
    };
}

#[tokio::test]
async fn what_is_linted_also_runs() {
    let built = RateLimiter::builder().policy("strict", Policy::new(Limit::per_minute(1))).build();
    let calls = async {
        one_failure!(async |text| only_in_the_key(1, text).await);
        one_failure!(async |text| only_in_expressions(text, 2, 2, true, false).await);
        one_failure!(policy);
        one_failure!(early_return);
        one_failure!(coerced);
        one_failure!(async |text| opaque(text).await);
        one_failure!(async |text| patterns((1, text), [3; 3], "").await);
        one_failure!(async |text| generic("a", [0; 3], text).await);
        one_failure!(async |text: &str| mutable(text.to_owned()).await);
        one_failure!(stacked);
        one_failure!(async |text| returns_a_future(1, text).await);
        one_failure!(returns_a_box);
        one_failure!(async |text| Service { base: 10, calls: 0 }.by_ref(text).await);
        one_failure!(async |text| Service { base: 10, calls: 0 }.by_mut(text).await);
        one_failure!(async |text| Arc::new(Service { base: 10, calls: 0 }).by_arc(text).await);
        one_failure!(async |text| Service { base: 10, calls: 0 }.parse((1, "a"), text).await);
        one_failure!(made_by_a_macro);
        one_failure!(bucket);
    };
    assert!(built.is_ok());
    if let Ok(limiter) = built {
        limiter.scope(calls).await;
    }
}

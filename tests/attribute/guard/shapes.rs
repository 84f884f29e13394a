//! Legal functions and values that were refused.

use std::num::NonZero;
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;

use futures_util::FutureExt as _;
use ratelimit_runtime::{RateLimiter, rate_limit};

use super::{Outcome, alone, one_each};

#[allow(clippy::panic, clippy::diverging_sub_expression, reason = "there is no other way to refuse")]
#[rate_limit(window = "60s", max = 1, on_refused = |error| panic!("{error}"))]
async fn never_returns() -> ! {
    std::panic::resume_unwind(Box::new("ran"))
}

#[tokio::test]
async fn a_function_that_never_returns_is_limited() {
    alone(async {
        let ran = AssertUnwindSafe(never_returns()).catch_unwind().await;
        assert!(ran.err().is_some_and(|panic| panic.downcast_ref() == Some(&"ran")));
        let refused = AssertUnwindSafe(never_returns()).catch_unwind().await;
        assert!(refused.err().is_some_and(|panic| panic.downcast_ref::<String>().is_some()));
    })
    .await;
}

static STANDARD: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory);
#[allow(clippy::non_std_lazy_statics, reason = "the type is the point")]
static ONCE_CELL: once_cell::sync::Lazy<RateLimiter> = once_cell::sync::Lazy::new(RateLimiter::memory);

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = STANDARD)]
async fn by_a_lazy_lock(id: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", window = "60s", max = 1, limiter = ONCE_CELL)]
async fn by_a_lazy(id: u32) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn a_limiter_may_be_lazy() {
    one_each(async || by_a_lazy_lock(1).await, async || by_a_lazy_lock(2).await).await;
    one_each(async || by_a_lazy(1).await, async || by_a_lazy(2).await).await;
}

#[rate_limit(key = "<id>", window = "60s", max = max, cost = cost)]
async fn by_signed_non_zero(id: u32, max: NonZero<i64>, cost: NonZero<i8>) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn numbers_may_be_signed_and_not_zero() {
    let (one, cost) = (NonZero::new(1).unwrap(), NonZero::new(1).unwrap());
    one_each(async || by_signed_non_zero(1, one, cost).await, async || by_signed_non_zero(2, one, cost).await).await;
    let negative = NonZero::new(-1).unwrap();
    alone(async { assert!(by_signed_non_zero(1, negative, cost).await.is_err(), "a negative limit is 0") }).await;
}

#[rate_limit(key = "<id>", window = "60s", max = 1)]
async fn argument_with_a_cfg_attr(
    #[cfg_attr(all(), allow(unused_variables, reason = "the attribute is the point"))] id: u32,
) -> Outcome {
    Ok(())
}

/// In the template the name is written with combining marks, as some editors do.
#[rate_limit(key = "<größe>", window = "60s", max = 1)]
async fn combining_marks(größe: u32) -> Outcome {
    Ok(())
}

#[rate_limit(key = "<id>", limits = ["1/60s", "1_000/1d"])]
async fn digits_in_groups(id: u32) -> Outcome {
    Ok(())
}

#[tokio::test]
async fn what_was_refused_is_limited() {
    one_each(async || argument_with_a_cfg_attr(1).await, async || argument_with_a_cfg_attr(2).await).await;
    one_each(async || combining_marks(1).await, async || combining_marks(2).await).await;
    one_each(async || digits_in_groups(1).await, async || digits_in_groups(2).await).await;
}

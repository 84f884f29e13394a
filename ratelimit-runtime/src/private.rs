//! What the expansion of `#[rate_limit]` and `key!` calls. It has no stability: the two crates are released together.

use std::sync::Arc;

pub use crate::key::KeyBuilder;
use crate::key::{self, KeyBuf};
pub use crate::rule::{Limit, MAX_COUNT, OnUnavailable, Rule};
pub use crate::{FromRateLimitError, Key, KeyPart, KeyWriter, RateLimitError, RateLimiter};

/// One consultation. It owns all it needs, so that nothing of the function's is held across an `.await`.
#[derive(Debug)]
pub struct Check {
    rule: &'static Rule,
    limiter: RateLimiter,
    limit: Limit,
    shadow: bool,
    key: KeyBuf,
}

impl Check {
    /// A check by the limiter that is found here and now.
    #[must_use]
    pub fn new(rule: &'static Rule) -> Self {
        Self::on(rule, crate::context::current())
    }

    /// A check by this limiter.
    #[must_use]
    pub fn on(rule: &'static Rule, limiter: RateLimiter) -> Self {
        let key = limiter.begin_key(rule);
        Self { rule, limit: rule.limit(), shadow: rule.is_shadow(), limiter, key }
    }

    pub fn max(&mut self, max: u64) {
        self.limit = self.limit.with_max(max);
    }

    pub fn shadow(&mut self, on: bool) {
        self.shadow = on;
    }

    /// Text of the template.
    pub fn text(&mut self, literal: &'static str) {
        key::push_text(&mut self.key, literal);
    }

    /// The value of a placeholder.
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        key::push_part(&mut self.key, value);
    }
}

/// The guard of a function with one attribute.
pub async fn run(mut check: Check) -> Result<(), RateLimitError> {
    check.limiter.finish_key(check.rule, &mut check.key);
    check.limiter.decide(check.rule, &[check.limit], check.shadow, &check.key).await.map(drop)
}

/// The guard of a function with several attributes, in written order; `None` where `when` was false.
pub async fn run_all<const N: usize>(checks: [Option<Check>; N]) -> Result<(), RateLimitError> {
    for check in checks.into_iter().flatten() {
        run(check).await?;
    }
    Ok(())
}

/// The value that a refused call returns.
#[must_use]
pub fn refuse<R: FromRateLimitError>(error: RateLimitError) -> R {
    R::from_rate_limit_error(error)
}

/// The value that a refused call returns, by the user's own function.
pub fn refuse_with<R, F: FnOnce(RateLimitError) -> R>(refused: F, error: RateLimitError) -> R {
    refused(error)
}

/// What may stand behind `limiter = …`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rate limiter",
    label = "expected a `RateLimiter`, a reference to one, or an `Arc` of one"
)]
pub trait AsLimiter {
    fn as_limiter(&self) -> &RateLimiter;
}

impl AsLimiter for RateLimiter {
    fn as_limiter(&self) -> &RateLimiter {
        self
    }
}

macro_rules! pointers_to_limiters {
    ($($pointer:ty)*) => {$(
        impl<T: AsLimiter + ?Sized> AsLimiter for $pointer {
            fn as_limiter(&self) -> &RateLimiter {
                (**self).as_limiter()
            }
        }
    )*};
}

pointers_to_limiters!(&T &mut T Box<T> std::rc::Rc<T> Arc<T>);

/// The limiter of `limiter = …`.
pub fn limiter<T: AsLimiter + ?Sized>(limiter: &T) -> RateLimiter {
    limiter.as_limiter().clone()
}

/// What may stand behind `max = …`: every integer. A negative one means 0, one above [`MAX_COUNT`] means
/// [`MAX_COUNT`].
#[diagnostic::on_unimplemented(
    message = "`max` is a whole number, not `{Self}`",
    label = "expected an integer of any type"
)]
pub trait Count {
    fn count(self) -> u64;
}

macro_rules! counts {
    ($($int:ty)*) => {$(
        impl Count for $int {
            fn count(self) -> u64 {
                #[allow(clippy::allow_attributes, unused_comparisons, reason = "one body for all integers")]
                let negative = self < 0;
                if negative { 0 } else { u64::try_from(self).unwrap_or(MAX_COUNT).min(MAX_COUNT) }
            }
        }
    )*};
}

counts!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

impl<T: Count + Copy> Count for &T {
    fn count(self) -> u64 {
        (*self).count()
    }
}

macro_rules! non_zero_counts {
    ($($int:ty)*) => {$(
        impl Count for std::num::NonZero<$int> {
            fn count(self) -> u64 {
                self.get().count()
            }
        }
    )*};
}

non_zero_counts!(u8 u16 u32 u64 u128 usize);

/// The `max` of `max = …` as the store counts it.
pub fn count<T: Count>(number: T) -> u64 {
    number.count()
}

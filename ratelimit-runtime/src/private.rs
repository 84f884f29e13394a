//! What the expansion of `#[rate_limit]` and `key!` calls. It has no stability: the two crates are released together.

use std::sync::Arc;

use smallvec::SmallVec;

pub use crate::check::Check;
use crate::consult;
pub use crate::key::KeyBuilder;
pub use crate::limit::{Limit, MAX_COUNT};
pub use crate::rule::{Algorithm, OnUnavailable, Rule};
pub use crate::settle::Held;
pub use crate::{FromRateLimitError, Key, KeyPart, KeyWriter, RateLimitError, RateLimiter};

/// The guard of a function with one attribute.
pub async fn run(mut check: Check) -> Result<(), RateLimitError> {
    check.finish();
    consult::patiently(&check).await.map(drop)
}

/// The guard of a function with several attributes, in written order; `None` where `when` was false.
pub async fn run_all<const N: usize>(checks: [Option<Check>; N]) -> Result<(), RateLimitError> {
    run_held(checks).await.map(drop)
}

/// The guard of a function whose outcome counts.
pub async fn run_held<const N: usize>(mut checks: [Option<Check>; N]) -> Result<Held<N>, RateLimitError> {
    for check in checks.iter_mut().flatten() {
        check.finish();
    }
    let mut decisions = {
        let asked: SmallVec<[&Check; 4]> = checks.iter().flatten().collect();
        consult::all_patiently(&asked).await?.into_iter()
    };
    let held = checks.map(|check| {
        let check = check?;
        let ticket = decisions.next()?.ticket();
        check.is_reservation().then_some((check, ticket))
    });
    Ok(Held::new(held))
}

/// Whether an outcome counts, as `count` says it by a closure.
pub fn counts<R, F: FnOnce(&R) -> bool>(outcome: &R, counts: F) -> bool {
    counts(outcome)
}

/// A return type of which `count = "ok"` and `count = "err"` know what is which.
#[diagnostic::on_unimplemented(
    message = "`count = \"ok\"` and `count = \"err\"` need a `Result`, not `{Self}`",
    label = "not a `Result`",
    note = "say which outcomes count: `count = |outcome| …`"
)]
pub trait Outcome {
    fn is_success(&self) -> bool;
}

impl<T, E> Outcome for Result<T, E> {
    fn is_success(&self) -> bool {
        self.is_ok()
    }
}

/// `count = "ok"`.
pub fn counts_ok<R: Outcome>(outcome: &R) -> bool {
    outcome.is_success()
}

/// `count = "err"`.
pub fn counts_err<R: Outcome>(outcome: &R) -> bool {
    !outcome.is_success()
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

/// What may stand behind `max = …` and `cost = …`: every integer. A negative one means 0, one above [`MAX_COUNT`] means
/// [`MAX_COUNT`].
#[diagnostic::on_unimplemented(
    message = "`max` and `cost` are whole numbers, not `{Self}`",
    label = "expected an integer of any type"
)]
pub trait Count: Copy {
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

impl<T: Count> Count for &T {
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

/// The number of `max = …` or `cost = …` as the store counts it.
pub fn count<T: Count>(number: T) -> u64 {
    number.count()
}

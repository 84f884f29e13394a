//! Functions and types that expansions of `#[rate_limit]`, `key!` and `#[derive(KeyPart)]` use,
//! and, with the feature `_tests`, the other packages of this workspace. They have no stability:
//! all packages are released together.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::decision::Decision;
use crate::engine::{self, Check, Engine, Part};
pub use crate::engine::{CallPermits, CheckBuilder, Completion, Reservations};
pub use crate::key::KeyBuilder;
use crate::limiter::find;
use crate::pace;
pub use crate::rule::{Algorithm, CalendarUnit, Limit, OnUnavailable, Rule};
#[cfg(all(feature = "_tests", feature = "redis"))]
pub use crate::store::redis::known::{Changing, Known, Lookup};
use crate::{FromRateLimitError, RateLimitError, RateLimiter};
pub use crate::{KeyKind, KeyPart, KeyWriter};
#[cfg(feature = "_tests")]
pub use crate::{
    clock::of_tokio::TokioClock,
    store::{
        built_in::{BuiltInStore, Health, Sealed},
        permit::{PermitId, PermitRequest, PermitVerdict},
    },
};

impl<'r> CheckBuilder<'r> {
    /// A check by the limiter that is in force when it is run.
    #[inline]
    #[must_use]
    pub fn new(rule: &'r Rule) -> Self {
        Self::of(rule, None)
    }

    /// A check by this limiter.
    #[must_use]
    pub fn on(rule: &'r Rule, limiter: RateLimiter) -> Self {
        Self::of(rule, Some(limiter.into_engine()))
    }

    /// Decides the check by the limiter that the attribute names, or else by the one in force.
    #[inline]
    fn decide(&mut self) -> Guard<()> {
        match self.take_engine() {
            Some(named) => self.decide_by_named(&named),
            None => self.decide_by(find::find().engine()),
        }
    }

    #[inline(never)]
    fn decide_by_named(&mut self, engine: &Arc<Engine>) -> Guard<()> {
        // As `decide_by`, with a closure of its own: each of the two is inlined.
        self.with_check(engine, |check| Guard::of(engine, check))
    }

    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost what a key of two parts does"
    )]
    #[inline(always)]
    fn decide_by(&mut self, engine: &Arc<Engine>) -> Guard<()> {
        self.with_check(engine, |check| Guard::of(engine, check))
    }

    /// The check as a part of a stack, with its permit; `max` is the call's own `concurrent`.
    fn into_part(mut self, max: Option<u64>) -> Part {
        let engine = self.take_engine().unwrap_or_else(find::current);
        self.kept_with_permit(&engine, max)
    }
}

/// The answer to a guard. It is small: an outcome that is decided at once is kept in it, a future
/// is on the heap.
#[must_use = "a guard that is not awaited limits nothing"]
pub struct Guard<T>(GuardState<T>);

enum GuardState<T> {
    Admitted(Option<T>),
    Refused(Option<RateLimitError>),
    /// Refused, and other tasks have had their turn.
    GaveWay(Option<RateLimitError>),
    /// The lock is never taken. It makes the guard `Sync`, as the future of the function may have
    /// to be.
    Waiting(Mutex<Pending<T>>),
}

type Pending<T> = Pin<Box<dyn Future<Output = Result<T, RateLimitError>> + Send>>;

/// A guard that has panicked is not polled again, and state that it shares is behind locks: the
/// function's future is as unwind safe as it is without a guard.
impl<T> UnwindSafe for Guard<T> {}
impl<T> RefUnwindSafe for Guard<T> {}

impl<T> Guard<T> {
    fn waiting(outcome: impl Future<Output = Result<T, RateLimitError>> + Send + 'static) -> Self {
        Self(GuardState::Waiting(Mutex::new(Box::pin(outcome))))
    }
}

impl Guard<()> {
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost what a key of two parts does"
    )]
    #[inline(always)]
    fn of(engine: &Arc<Engine>, check: &Check<'_>) -> Self {
        engine::decide_now(engine, check, || Self::later(engine, check))
    }

    #[inline(never)]
    fn later(engine: &Arc<Engine>, check: &Check<'_>) -> Self {
        let part = Part::new(engine, check);
        Self::waiting(async move { engine::decide_later(&part).await.map(drop) })
    }
}

impl engine::Conclusion for Guard<()> {
    #[inline]
    fn admitted(_: impl FnOnce() -> Decision) -> Self {
        Self(GuardState::Admitted(Some(())))
    }

    #[inline]
    fn refused(error: RateLimitError) -> Self {
        Self(GuardState::Refused(Some(error)))
    }
}

impl<T: Unpin> Future for Guard<T> {
    type Output = Result<T, RateLimitError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let guard = self.get_mut();
        match &mut guard.0 {
            GuardState::Admitted(admitted) => Poll::Ready(Ok(once(admitted))),
            GuardState::Refused(error) if !pace::is_due() => Poll::Ready(Err(once(error))),
            _ => guard.poll_later(cx),
        }
    }
}

impl<T> Guard<T> {
    #[inline(never)]
    fn poll_later(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RateLimitError>> {
        match &mut self.0 {
            GuardState::Admitted(admitted) => Poll::Ready(Ok(once(admitted))),
            GuardState::Refused(error) if pace::poll_slice(cx).is_pending() => {
                self.0 = GuardState::GaveWay(error.take());
                Poll::Pending
            }
            GuardState::Refused(error) | GuardState::GaveWay(error) => {
                Poll::Ready(Err(once(error)))
            }
            GuardState::Waiting(outcome) => outcome
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .as_mut()
                .poll(cx),
        }
    }
}

#[allow(
    clippy::expect_used,
    reason = "the contract of a future: not to be polled once it is ready"
)]
#[inline]
fn once<T>(outcome: &mut Option<T>) -> T {
    outcome.take().expect("a guard polled after completion")
}

impl<T> fmt::Debug for Guard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard(..)")
    }
}

/// The guard of a function with one attribute.
pub fn run(check: &mut CheckBuilder<'_>) -> Guard<()> {
    check.decide()
}

/// The guard of a function with several attributes, in written order; `None` where `when` was
/// false.
pub fn run_all<const N: usize>(checks: [Option<CheckBuilder<'_>>; N]) -> Guard<()> {
    let mut checks = checks.into_iter().flatten();
    let Some(mut first) = checks.next() else {
        return Guard(GuardState::Admitted(Some(())));
    };
    let Some(second) = checks.next() else {
        return run(&mut first);
    };
    let stack = [first, second].into_iter().chain(checks);
    let stack: Vec<Part> = stack.map(|check| check.into_part(None)).collect();
    Guard::waiting(async move { engine::acquire(stack).await.map(drop) })
}

/// The guard of a function whose outcome decides whether the call counts, or its cost.
pub fn run_reserved<const N: usize>(
    checks: [Option<CheckBuilder<'_>>; N],
) -> Guard<Reservations<N>> {
    let stack = checks.map(|check| check.map(|check| check.into_part(None)));
    Guard::waiting(async move {
        let (reservations, _no_permits) = reserve(stack).await?;
        Ok(reservations)
    })
}

/// A check, and its `concurrent` if the call computes it.
type PermittedCheck<'r> = (CheckBuilder<'r>, Option<u64>);

/// The guard of a function whose calls in flight are limited. The permits live as long as the body.
pub fn run_with_permits<const N: usize>(
    checks: [Option<PermittedCheck<'_>>; N],
) -> Guard<CallPermits> {
    let stack = checks.into_iter().flatten();
    let stack: Vec<Part> = stack.map(|(check, max)| check.into_part(max)).collect();
    Guard::waiting(async move { Ok(engine::acquire(stack).await?.permits) })
}

/// The guard of a function whose calls in flight are limited, and whose outcome decides whether the
/// call counts, or its cost.
pub fn run_reserved_with_permits<const N: usize>(
    checks: [Option<PermittedCheck<'_>>; N],
) -> Guard<(Reservations<N>, CallPermits)> {
    let stack = checks.map(|check| check.map(|(check, max)| check.into_part(max)));
    Guard::waiting(reserve(stack))
}

/// Decides a stack, of which some checks may not be made, and gives its reservations.
async fn reserve<const N: usize>(
    stack: [Option<Part>; N],
) -> Result<(Reservations<N>, CallPermits), RateLimitError> {
    let is_made = stack.each_ref().map(Option::is_some);
    let admitted = engine::acquire(stack.into_iter().flatten()).await?;
    Ok(admitted.reserved(is_made))
}

fn counting(counts: bool) -> Completion {
    if counts {
        Completion::Commit
    } else {
        Completion::Release
    }
}

/// Commits or releases the reservation, as the closure of `count` says of the outcome.
pub fn counts<R, F: FnOnce(&R) -> bool>(outcome: &R, counts: F) -> Completion {
    counting(counts(outcome))
}

/// Commits the reservation at the actual cost that the closure of `actual_cost` gives.
pub fn actual_cost<R, C: Count, F: FnOnce(&R) -> C>(outcome: &R, cost: F) -> Completion {
    Completion::CommitActual(cost(outcome).count())
}

/// A return type for `count = "ok"` and `count = "err"`, which tells success from failure.
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
pub fn counts_ok<R: Outcome>(outcome: &R) -> Completion {
    counting(outcome.is_success())
}

/// `count = "err"`.
pub fn counts_err<R: Outcome>(outcome: &R) -> Completion {
    counting(!outcome.is_success())
}

/// The value that a refused call returns.
#[must_use]
#[track_caller]
pub fn refuse<R: FromRateLimitError>(error: RateLimitError) -> R {
    R::from_rate_limit_error(error)
}

/// The value that a refused call returns, by the user's own function.
pub fn refuse_with<R, F: FnOnce(RateLimitError) -> R>(refused: F, error: RateLimitError) -> R {
    refused(error)
}

/// A value of `limiter = …`.
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

#[diagnostic::do_not_recommend]
impl<P: Deref<Target: AsLimiter> + ?Sized> AsLimiter for P {
    fn as_limiter(&self) -> &RateLimiter {
        (**self).as_limiter()
    }
}

/// The limiter of `limiter = …`.
pub fn limiter<T: AsLimiter + ?Sized>(limiter: &T) -> RateLimiter {
    limiter.as_limiter().clone()
}

/// The name of `policy = …`, where each call names its own.
pub fn policy_name<T: AsRef<str> + ?Sized>(policy: &T) -> Box<str> {
    policy.as_ref().into()
}

/// The kind of a newtype's field.
#[derive(Debug)]
pub struct FieldKind<T: ?Sized>(PhantomData<T>);

impl<T: KeyPart + ?Sized> FieldKind<T> {
    pub const KIND: KeyKind = T::KIND;
}

/// The kind of a field that is no [`KeyPart`]: the compiler then reports only the field's value.
pub trait AnyKind {
    const KIND: KeyKind = KeyKind::Other;
}

impl<T: ?Sized> AnyKind for FieldKind<T> {}

/// The type of a const parameter. A key that one name alone makes differ between calls has such a
/// parameter of the `impl` by that name: a constant would be one key for all callers.
#[diagnostic::on_unimplemented(
    message = "this key is the same for every call, because it is a constant",
    label = "a constant",
    note = "a template is a literal in the attribute: `key = \"<email>\"`",
    note = "for one bucket for all callers leave `key` out; for what a static holds call a method"
)]
pub trait ConstParameter {}

#[diagnostic::do_not_recommend]
impl ConstParameter for bool {}
#[diagnostic::do_not_recommend]
impl ConstParameter for char {}

/// Accepts the one name in a key if it may be a const parameter.
pub fn const_parameter<T: ConstParameter + ?Sized>(_: &T) {}

/// A value of `max = …`, `cost = …`, `actual_cost = …` or `concurrent = …`: any integer. A negative
/// one means 0, one above [`Limit::MAX_COUNT`] means that.
#[diagnostic::on_unimplemented(
    message = "`max`, `cost`, `actual_cost` and `concurrent` are whole numbers, not `{Self}`",
    label = "expected an integer of any type"
)]
pub trait Count: Copy {
    fn count(self) -> u64;
}

macro_rules! counts {
    ($($int:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl ConstParameter for $int {}

        impl Count for $int {
            fn count(self) -> u64 {
                #[allow(clippy::allow_attributes, unused_comparisons, reason = "one body for all integers")]
                let negative = self < 0;
                if negative { 0 } else { u64::try_from(self).unwrap_or(Limit::MAX_COUNT).min(Limit::MAX_COUNT) }
            }
        }

        impl Count for std::num::NonZero<$int> {
            fn count(self) -> u64 {
                self.get().count()
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

/// The number of `max = …`, `cost = …` or `concurrent = …` as the store counts it.
pub fn count<T: Count>(number: T) -> u64 {
    number.count()
}

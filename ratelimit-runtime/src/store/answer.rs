//! [`Answer`]: the return type of a store: a result at once, or a future of one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::StoreError;

/// A store's answer: at once, or as a future. A store in memory never allocates for it.
///
/// An answer for later is lazy: until it is first polled, the store has done nothing. After a first
/// poll the operation may be carried out, even if the answer is dropped.
#[must_use = "an answer does nothing until it is awaited"]
pub struct Answer<'a, T>(AnswerState<'a, T>);

enum AnswerState<'a, T> {
    Known(Option<Result<T, StoreError>>),
    Later(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<'a, T> Answer<'a, T> {
    /// An answer that is known.
    #[inline]
    pub fn ready(result: Result<T, StoreError>) -> Self {
        Self(AnswerState::Known(Some(result)))
    }

    /// An answer that has to be waited for. The limiter drops it at its timeout.
    pub fn later(future: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        Self(AnswerState::Later(Box::pin(future)))
    }

    /// The error that the store does not offer the operation.
    pub(super) fn unsupported(message: &'static str) -> Self {
        Self::ready(Err(StoreError::unsupported(message)))
    }

    /// The answer with `change` applied to its result.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'a) -> Answer<'a, U>
    where
        T: Unpin + Send + 'a,
    {
        match self.known() {
            Ok(result) => Answer::ready(result.map(change)),
            Err(unknown) => Answer::later(async move { unknown.await.map(change) }),
        }
    }

    /// The result, if it is known already; it can be taken once.
    #[inline]
    pub(crate) fn take_known(&mut self) -> Option<Result<T, StoreError>> {
        match &mut self.0 {
            AnswerState::Known(result) => result.take(),
            AnswerState::Later(_) => None,
        }
    }

    /// `true` if the result has to be waited for.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.0, AnswerState::Later(_))
    }

    /// The result if it is known already, else the answer to wait for.
    ///
    /// # Errors
    ///
    /// The answer itself, where it is not known yet.
    #[allow(
        clippy::result_large_err,
        reason = "the error is the answer, which is not boxed to be small"
    )]
    pub fn known(self) -> Result<Result<T, StoreError>, Self> {
        match self.0 {
            AnswerState::Known(Some(result)) => Ok(result),
            repr => Err(Self(repr)),
        }
    }
}

/// # Panics
///
/// Polling a known answer again after it has given its result panics, as with
/// [`std::future::Ready`].
impl<T: Unpin> Future for Answer<'_, T> {
    type Output = Result<T, StoreError>;

    #[allow(
        clippy::expect_used,
        reason = "the contract of a future: not to be polled once it is ready"
    )]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.get_mut();
        match &mut answer.0 {
            AnswerState::Known(result) => {
                Poll::Ready(result.take().expect("`Answer` polled after completion"))
            }
            AnswerState::Later(future) => {
                let result = future.as_mut().poll(cx);
                if result.is_ready() {
                    answer.0 = AnswerState::Known(None);
                }
                result
            }
        }
    }
}

impl<T> fmt::Debug for Answer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            AnswerState::Known(_) => "Answer::ready",
            AnswerState::Later(_) => "Answer::later",
        })
    }
}

//! The errors of a check: [`RateLimitError`] for callers, [`StoreError`] from a store to the
//! limiter.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decision::{Decision, whole_seconds};

/// The reason why a call was not admitted.
///
/// | variant | meaning | HTTP | try again? |
/// | --- | --- | --- | --- |
/// | `Exceeded` | the limit is used up, or 0 | 429 | after [`retry_after`](Self::retry_after) |
/// | `CostExceedsLimit` | the call costs more than the limit ever admits | 413 | never |
/// | `Unavailable` | the store did not answer in time, and the rule says `deny` | 503 | when the store is back |
/// | `Misconfigured` | a setting is wrong: the URL, the password, the script's permissions, two meanings for one name | 500 | after a change |
///
/// `Debug`, which prints the error that `main` returns, prints the `Display` of the error and below
/// it that of each cause.
#[derive(Clone)]
#[non_exhaustive]
pub enum RateLimitError {
    /// The limit is used up, or is 0, which no waiting ends. Nothing was charged.
    Exceeded(Decision),
    /// The call costs more than the limit, which is above 0, ever admits. Nothing was charged.
    #[non_exhaustive]
    CostExceedsLimit {
        /// The rule that refused.
        rule: &'static str,
        /// The cost of the call.
        cost: u64,
        /// The highest cost that the unused limit admits.
        limit: u64,
        /// `true` if `limit` is the highest cost of one call in a sliding window, 1,000. Other
        /// algorithms count any cost.
        #[doc(hidden)]
        is_of_log: bool,
    },
    /// The store gave no answer in time, or replied that it cannot serve now.
    Unavailable(StoreError),
    /// The limiter, its store or the rule is set up wrongly. `on_unavailable` does not apply,
    /// because a typo in a password must not switch a limit off.
    Misconfigured(StoreError),
}

impl RateLimitError {
    pub(crate) fn misconfigured(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Misconfigured(StoreError::misconfigured(message))
    }

    pub(crate) fn cost_exceeds(rule: &'static str, cost: u64, limit: u64, is_of_log: bool) -> Self {
        Self::CostExceedsLimit {
            rule,
            cost,
            limit,
            is_of_log,
        }
    }

    /// Time from now until a call of this cost would be admitted, if no other call arrives: see
    /// [`Decision::retry_after`]. `None` if waiting does not help, or the time is not known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.decision().and_then(Decision::retry_after)
    }

    /// [`retry_after`](Self::retry_after) in seconds, rounded up.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(whole_seconds)
    }

    /// The message for a client: it does not show mistakes in the setup.
    #[cfg(feature = "http")]
    pub(crate) fn public_message(&self) -> String {
        match self {
            Self::Misconfigured(_) => "internal error".to_owned(),
            Self::CostExceedsLimit { cost, limit, .. } => {
                format!("a request of cost {cost} is above the limit of {limit}")
            }
            error => error.to_string(),
        }
    }

    /// The decision of a refusal; `None` for any other error.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Exceeded(decision) => Some(decision),
            _ => None,
        }
    }
}

impl fmt::Display for RateLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exceeded(decision) if decision.is_in_flight_limit() => {
                f.write_str("too many calls in flight")
            }
            Self::Exceeded(_) => match self.retry_after_seconds() {
                Some(seconds) => write!(f, "too many requests, try again in {seconds}s"),
                None => f.write_str("too many requests"),
            },
            Self::CostExceedsLimit {
                cost,
                limit,
                is_of_log: false,
                ..
            } => {
                write!(f, "a request of cost {cost} is above the limit of {limit}")
            }
            Self::CostExceedsLimit {
                cost,
                limit,
                is_of_log: true,
                ..
            } => write!(
                f,
                "a request of cost {cost} is above the {limit} that `sliding_window` counts at \
                 once: `token_bucket` and `sliding_counter` count any number"
            ),
            Self::Unavailable(_) => f.write_str("the rate limiter is unavailable"),
            Self::Misconfigured(error) => {
                write!(f, "the rate limiter is misconfigured: {}", error.message())
            }
        }
    }
}

impl fmt::Debug for RateLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_causes(self, f)
    }
}

/// Formats an error as `main` prints it: its message, and a line for each cause.
fn with_causes(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, "\n  caused by: {error}")?;
        cause = error.source();
    }
    Ok(())
}

impl Error for RateLimitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unavailable(error) => Some(error),
            // Its message is part of this error's.
            Self::Misconfigured(error) => error.source(),
            _ => None,
        }
    }
}

impl From<StoreError> for RateLimitError {
    fn from(error: StoreError) -> Self {
        match error.kind {
            StoreErrorKind::Unavailable | StoreErrorKind::TimedOut | StoreErrorKind::Full => {
                Self::Unavailable(error)
            }
            StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported => {
                Self::Misconfigured(error)
            }
        }
    }
}

/// The reason why a [`Store`](crate::store::Store) did not decide.
#[derive(Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    /// `true` if the request may have been carried out.
    is_lost: bool,
    message: Cow<'static, str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of a [`StoreError`], which selects the answer to the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store does not serve: `on_unavailable` chooses the answer.
    Unavailable,
    /// The store did not answer in time; its health says whether it is up. While it is up, no call
    /// is admitted unchecked: a client that can flood the store must not be able to switch limits
    /// off.
    TimedOut,
    /// The store refuses writes: it has no memory or disk left, or too few replicas. No call is
    /// admitted unchecked: a client that can fill the store could switch limits off.
    Full,
    /// A setting is wrong; waiting does not help.
    Misconfigured,
    /// The store does not have the operation.
    Unsupported,
}

impl StoreError {
    /// An error of `kind`; `message` says what happened and, if possible, what to do.
    pub fn new(kind: StoreErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            is_lost: false,
            message: message.into(),
            source: None,
        }
    }

    /// An error of a store that cannot be reached, or that did not answer.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unavailable, message)
    }

    /// An error of a store that did not answer in time. The health of the store says whether it is
    /// up.
    pub fn timed_out(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::TimedOut, message)
    }

    /// An error of a store that is set up wrongly.
    pub fn misconfigured(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Misconfigured, message)
    }

    /// An error of a store that does not have the operation.
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unsupported, message)
    }

    /// Marks this error as that of a request that may have been carried out, because its reply was
    /// lost.
    #[must_use]
    pub fn lost(self) -> Self {
        Self {
            is_lost: true,
            ..self
        }
    }

    /// `true` if the request may have been carried out.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The error with another message.
    #[cfg(feature = "redis")]
    pub(crate) fn with_message(self, message: String) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }

    /// Sets the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of the error, which selects the answer to the call.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// The message: what happened and, if possible, what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|error| error as _)
    }
}

// An error that travels through every `Result` of a service stays small.
const _: () = assert!(size_of::<RateLimitError>() <= 64);

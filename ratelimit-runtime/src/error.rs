//! The errors of a check: [`RateLimitError`] for callers, [`StoreError`] between a store and the
//! limiter.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decision::{Decision, whole_seconds};

/// Why a call was not let through.
///
/// | variant | meaning | HTTP | try again? |
/// | --- | --- | --- | --- |
/// | `Exceeded` | the limit is used up, or 0 | 429 | after [`retry_after`](Self::retry_after) |
/// | `CostExceedsLimit` | this call weighs more than the limit ever allows | 413 | never |
/// | `Unavailable` | the store did not answer in time, and the rule says `deny` | 503 | when the store is back |
/// | `Misconfigured` | a setting is wrong: the URL, the password, the script's permissions, two meanings for one name | 500 | after a change |
///
/// As `Debug`, which a `main` that returns it prints, an error reads as its `Display`, with its
/// causes below it.
#[derive(Clone)]
#[non_exhaustive]
pub enum RateLimitError {
    /// The limit is used up, or it is 0, which no waiting ends. Nothing was charged.
    Exceeded(Decision),
    /// The call costs more than the limit, which is above 0, allows in any window, so waiting does
    /// not help. Nothing was charged.
    #[non_exhaustive]
    CostExceedsLimit {
        /// The rule that refused.
        rule: &'static str,
        /// The cost of the call.
        cost: u64,
        /// The highest cost that the limit admits.
        limit: u64,
        /// Whether that is the highest cost of one call in a sliding window: 1,000. The other
        /// algorithms count any number.
        is_of_log: bool,
    },
    /// The store gave no answer in time, or said that it cannot serve now.
    Unavailable(StoreError),
    /// The limiter or its store is set up wrongly. It is never answered by the `on_unavailable`
    /// policy: a typo in a password must not switch a limit off.
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

    /// How long to wait until this very call would be admitted, if no other call arrives, as
    /// [`Decision::retry_after`] says; `None` where waiting does not help, or the time is not
    /// known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.decision().and_then(Decision::retry_after)
    }

    /// The same in whole seconds, rounded up.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(whole_seconds)
    }

    /// The message that a client may read: it names no mistake in the setup.
    #[cfg(feature = "http")]
    pub(crate) fn public_message(&self) -> String {
        match self {
            Self::Misconfigured(_) => "internal error".to_owned(),
            error => error.to_string(),
        }
    }

    /// The decision behind a refusal; `None` where the limit itself was not the reason.
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

/// An error as `main` prints it: its message, and a line for each cause.
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
    /// Whether the request may have been carried out.
    is_lost: bool,
    message: Cow<'static, str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of failure of a [`StoreError`]; it selects the answer to the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store does not serve: `on_unavailable` decides.
    Unavailable,
    /// No answer in time; whether the store is up, its health says. While it is up, never answered
    /// by "allow": a client that can flood it must not be able to switch limits off.
    TimedOut,
    /// The store has no memory or disk left. Never answered by "allow": a client that can fill it
    /// could switch limits off.
    Full,
    /// A setting is wrong; waiting does not help.
    Misconfigured,
    /// The store does not offer the operation.
    Unsupported,
}

impl StoreError {
    /// An error of `kind`; `message` says what happened and, where it can, what to do.
    pub fn new(kind: StoreErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            is_lost: false,
            message: message.into(),
            source: None,
        }
    }

    /// The store cannot be reached, or did not answer.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unavailable, message)
    }

    /// The store did not answer in time; whether it is up, its health says.
    pub fn timed_out(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::TimedOut, message)
    }

    /// The store is set up wrongly.
    pub fn misconfigured(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Misconfigured, message)
    }

    /// The store does not offer the operation.
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StoreErrorKind::Unsupported, message)
    }

    /// The same, of a request that may have been carried out: its reply was lost.
    #[must_use]
    pub fn lost(self) -> Self {
        Self {
            is_lost: true,
            ..self
        }
    }

    /// Whether the request may have been carried out.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The same, with the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// The message, which says what happened.
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

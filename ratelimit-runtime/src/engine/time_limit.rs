//! [`TimeLimit`]: when a check has to be over, whatever its parts. It is handed down to them, and
//! never started anew.

use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::real_time::{self, Elapsed};
use crate::rule::Limit;
use crate::store::Answer;

/// The end of a check. Real time: a server does not know that the clock of a test is paused.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimit {
    at: Instant,
    /// Named in the error message.
    timeout: Duration,
}

impl TimeLimit {
    /// From now on.
    pub(super) fn new(timeout: Duration) -> Self {
        Self::after(Instant::now(), timeout)
    }

    pub(super) fn after(start: Instant, timeout: Duration) -> Self {
        // No call waits for a year, and a sum of times must not overflow.
        Self { at: start + timeout.min(Limit::MAX_WINDOW), timeout }
    }

    /// The one that ends first.
    pub(super) fn or_earlier(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    pub(super) fn at(self) -> Instant {
        self.at
    }
}

impl<T: Unpin> Answer<'_, T> {
    /// The result, or an error once the time limit is reached, whatever the store does meanwhile.
    pub(super) async fn within(&mut self, limit: TimeLimit) -> Result<T, StoreError> {
        if let Some(result) = self.take_known() {
            return result;
        }
        if let Err(why) = real_time::can_wait() {
            return Err(StoreError::misconfigured(format!("a check on this store cannot be made here: {why}")));
        }
        match real_time::timeout_at(limit.at, &mut *self).await {
            Ok(result) => result,
            Err(Elapsed) => Err(StoreError::timed_out(format!("no answer from the store within {:?}", limit.timeout))),
        }
    }
}

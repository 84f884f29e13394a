//! The time of a store that does not take the server's.

use crate::clock::Clock;
use crate::error::StoreError;
use crate::rule::{MAX_COUNT, MAX_WINDOW};

/// The caller's clock, where the store has one.
#[derive(Clone, Copy)]
pub(super) struct OwnClock<'a>(pub(super) Option<&'a dyn Clock>);

impl OwnClock<'_> {
    /// The caller's time in microseconds; `None` for the server's.
    pub(super) fn now(self) -> Result<Option<u64>, StoreError> {
        let Some(clock) = self.0 else { return Ok(None) };
        let now = clock.now().as_micros();
        match u64::try_from(now) {
            // Beyond this, the script could not add a window exactly.
            Ok(now) if u128::from(now) + MAX_WINDOW.as_micros() <= u128::from(MAX_COUNT) => Ok(Some(now)),
            _ => Err(StoreError::misconfigured("the clock of the Redis store is more than 284 years past its start")),
        }
    }
}

//! [`Moment`]: a time, and the number of reconnections to the server of a key until then.

use std::time::Duration;

use crate::store::redis::settings::epochs::Epochs;

#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// The time by the store's clock, in microseconds.
    pub(super) time: u64,
    /// The number of reconnections to the key's server so far.
    pub(super) epoch: u64,
}

impl Moment {
    #[inline]
    pub(super) fn new(time: Duration, epochs: &Epochs, key: &[u8]) -> Self {
        Self {
            time: micros(time),
            epoch: epochs.of(key),
        }
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(u64::from(duration.subsec_micros()))
}

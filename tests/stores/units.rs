//! Limits and times in microseconds.

use std::time::Duration;

use ratelimit_runtime::{Algorithm, Limit};

pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const DAY: u64 = 24 * 60 * MINUTE;

pub(crate) const ALGORITHMS: &[Algorithm] = ratelimit_conformance::ALGORITHMS;

pub(crate) fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

pub(crate) fn per(max: u64, window: u64) -> Limit {
    Limit::new(max, micros(window))
}

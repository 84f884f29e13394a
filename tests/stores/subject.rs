//! One key of a store in memory, on a clock that the test moves.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::time::Duration;

use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore};

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

/// One key in memory.
pub(crate) struct Subject {
    pub(crate) store: MemoryStore,
    pub(crate) clock: FakeClock,
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: Vec<Limit>,
}

impl Subject {
    pub(crate) fn memory(algorithm: Algorithm, limit: Limit) -> Self {
        let clock = FakeClock::new();
        let store = MemoryStore::new().with_clock(clock.clone());
        Self { store, clock, algorithm, limits: vec![limit] }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request::new(b"key", self.algorithm, &self.limits)
    }

    pub(crate) fn pass(&self, by: u64) {
        self.clock.advance(micros(by));
    }
}

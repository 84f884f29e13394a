//! What the algorithms, their scripts and their state once got wrong.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod blocks;
mod calendar;
mod clocks;
mod damaged;
mod minted_keys;
mod overflow;
mod redis_cell;
mod refunds;
mod reservations;
mod sorted_set;

use std::time::Duration;

use ratelimit_conformance::Reference;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisMode, RedisStore, Store};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;

const ALGORITHMS: &[Algorithm] = Algorithm::ALL;

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn per(max: u64, window: u64) -> Limit {
    Limit::new(max, micros(window))
}

/// One key of a store on a clock that the test moves.
struct Subject {
    name: &'static str,
    store: Box<dyn Store>,
    clock: FakeClock,
    key: String,
    algorithm: Algorithm,
    limits: Vec<Limit>,
}

impl Subject {
    fn memory(algorithm: Algorithm, limit: Limit) -> Self {
        let clock = FakeClock::new();
        let store = Box::new(MemoryStore::new().with_clock(clock.clone()));
        Self::of("memory", store, clock, algorithm, limit)
    }

    fn redis(algorithm: Algorithm, limit: Limit) -> Self {
        let clock = FakeClock::new();
        let url = crate::support::redis::shared().url();
        let store = Box::new(RedisStore::new(&url).unwrap().with_clock(clock.clone()));
        Self::of("Redis", store, clock, algorithm, limit)
    }

    fn sorted_set(scripts: bool, limit: Limit) -> Self {
        let clock = FakeClock::new();
        let url = crate::support::redis::shared().url();
        let store = Box::new(RedisStore::new(&url).unwrap().with_clock(clock.clone()).mode(if scripts {
            RedisMode::Scripts
        } else {
            RedisMode::Transactions
        }));
        let name = if scripts { "a sorted set" } else { "a sorted set without scripts" };
        Self::of(name, store, clock, Algorithm::SlidingWindow, limit)
    }

    /// The same key everywhere it can be kept.
    fn everywhere(algorithm: Algorithm, limit: Limit) -> Vec<Self> {
        let mut all = vec![Self::memory(algorithm, limit), Self::redis(algorithm, limit)];
        if algorithm == Algorithm::SlidingWindow {
            all.extend([Self::sorted_set(true, limit), Self::sorted_set(false, limit)]);
        }
        all
    }

    fn of(name: &'static str, store: Box<dyn Store>, clock: FakeClock, algorithm: Algorithm, limit: Limit) -> Self {
        Self { name, store, clock, key: crate::support::unique("algo"), algorithm, limits: vec![limit] }
    }

    fn request(&self) -> Request<'_> {
        Request::new(self.key.as_bytes(), self.algorithm, &self.limits)
    }

    fn pass(&self, by: u64) {
        self.clock.advance(micros(by));
    }

    fn step_back(&self, by: u64) {
        self.clock.step_back(micros(by));
    }

    /// What the subject is, for messages.
    fn what(&self) -> String {
        format!("{} in {}", self.algorithm, self.name)
    }
}

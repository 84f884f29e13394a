//! Random choices that can be made again: the seed is printed, and `RATELIMIT_SEED` gives it.

#![allow(clippy::print_stdout, reason = "the seed, to repeat a failure")]

use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The seed of this run.
pub(crate) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let given = std::env::var("RATELIMIT_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        println!("RATELIMIT_SEED={seed}");
        seed
    })
}

/// A generator (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of choices that no other has in this run.
    pub(crate) fn another() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(seed().wrapping_add(NEXT.fetch_add(0x1000_0001, Ordering::Relaxed)))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.number() % count
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        *all.get(usize::try_from(self.below(all.len() as u64)).unwrap())
            .unwrap()
    }

    /// A pause of between half as long and one and a half times as long.
    pub(crate) fn about(&mut self, pause: Duration) -> Duration {
        let micros = u64::try_from(pause.as_micros()).unwrap();
        Duration::from_micros(micros / 2 + self.below(micros.max(1)))
    }

    /// Another stream of choices.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.number())
    }
}

//! Random choices that can be made again: the seed is printed, and `RATELIMIT_SEED` gives it.

#![allow(clippy::print_stdout, reason = "the seed, for whoever has to find out what went wrong")]

use std::hash::{BuildHasher as _, RandomState};

/// The seed of this run.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("RATELIMIT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("RATELIMIT_SEED={seed}");
    seed
}

/// A generator (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
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

    /// Another stream of choices.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.number())
    }
}

//! [`Full`]: new keys in a full store.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::{Key, Limit, MemoryStore, RateLimiter, Rule};

use crate::ours::MAX;

/// The keys for which there is room.
const PLACES: usize = 100_000;

/// A store that is full of the keys of several rules, the first of which has half of them.
#[derive(Debug)]
pub struct Full {
    limiter: RateLimiter,
    rules: Vec<Rule>,
    minted: AtomicU64,
    runtime: tokio::runtime::Runtime,
}

impl Full {
    /// `Full300` has keys of 300 rules.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(Self::of(name.strip_prefix("Full")?.parse().ok()?))
    }

    fn of(rules: usize) -> Self {
        let limit = Limit::new(MAX, Duration::from_secs(60 * 60));
        let rule = |rule| Rule::new(format!("rule{rule}").leak(), limit);
        let full = Self {
            limiter: RateLimiter::with_store(MemoryStore::with_capacity(PLACES)),
            rules: (0..rules).map(rule).collect(),
            minted: AtomicU64::new(0),
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
        };
        full.mint(full.rules.iter().cycle().take(PLACES / 2));
        full.mint(full.rules.iter().take(1).cycle().take(PLACES));
        full
    }

    /// Asks for so many new keys, of each rule in turn. Tools find it by its name.
    #[inline(never)]
    pub fn measured(&self, checks: u64) {
        let checks = usize::try_from(checks).unwrap();
        self.mint(self.rules.iter().cycle().take(checks));
    }

    fn mint<'a>(&self, rules: impl Iterator<Item = &'a Rule>) {
        self.runtime.block_on(async {
            for rule in rules {
                let key = Key::of(&self.minted.fetch_add(1, Ordering::Relaxed));
                let decision = self.limiter.acquire(rule, &key).await;
                black_box(decision).unwrap();
            }
        });
    }
}

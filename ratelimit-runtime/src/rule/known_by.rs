//! [`KnownBy`]: which limiters have met a rule, so that they look it up in their registry once and not at every call.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many limiters a rule remembers. More rarely share one rule; any beyond these look the rule up on every call.
const LIMITERS: usize = 8;

/// The ids of limiters, from 1 on.
#[derive(Debug, Default)]
pub(crate) struct KnownBy([AtomicU64; LIMITERS]);

impl KnownBy {
    pub(super) const fn nobody() -> Self {
        Self([const { AtomicU64::new(0) }; LIMITERS])
    }

    #[inline]
    pub(crate) fn contains(&self, limiter: u64) -> bool {
        self.0.iter().any(|known| known.load(Ordering::Relaxed) == limiter)
    }

    pub(crate) fn insert(&self, limiter: u64) {
        for slot in &self.0 {
            match slot.compare_exchange(0, limiter, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) if other == limiter => return,
                Err(_) => {}
            }
        }
    }
}

impl Clone for KnownBy {
    fn clone(&self) -> Self {
        Self(std::array::from_fn(|at| AtomicU64::new(self.0.get(at).map_or(0, |id| id.load(Ordering::Relaxed)))))
    }
}

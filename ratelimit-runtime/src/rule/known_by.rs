//! [`KnownBy`]: which limiters have met a rule, so that each looks it up in its registry once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many limiters a rule remembers. More rarely share one rule; any beyond these look the rule
/// up on every call.
const LIMITERS: usize = 8;

pub(crate) struct KnownBy {
    /// The ids of limiters, from 1 on.
    limiters: [AtomicU64; LIMITERS],
    /// Whether a limiter that one call makes has been reported.
    made_per_call: AtomicBool,
}

impl KnownBy {
    pub(super) const fn none() -> Self {
        Self {
            limiters: [const { AtomicU64::new(0) }; LIMITERS],
            made_per_call: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn contains(&self, limiter: u64) -> bool {
        self.limiters
            .iter()
            .any(|known| known.load(Ordering::Relaxed) == limiter)
    }

    pub(crate) fn insert(&self, limiter: u64) {
        for slot in &self.limiters {
            match slot.compare_exchange(0, limiter, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) if other == limiter => return,
                Err(_) => {}
            }
        }
    }

    /// Whether a limiter that one call makes is to be reported: once.
    pub(crate) fn report_made_per_call(&self) -> bool {
        !self.made_per_call.swap(true, Ordering::Relaxed)
    }
}

impl Clone for KnownBy {
    fn clone(&self) -> Self {
        Self {
            limiters: self
                .limiters
                .each_ref()
                .map(|id| AtomicU64::new(id.load(Ordering::Relaxed))),
            made_per_call: AtomicBool::new(self.made_per_call.load(Ordering::Relaxed)),
        }
    }
}

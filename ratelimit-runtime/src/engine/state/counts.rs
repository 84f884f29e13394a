//! [`PermitCounts`]: how many permits of each key are open in this process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many permits of each key a limiter has open. There is an entry for each call in flight at
/// most.
#[derive(Debug, Default)]
pub(in crate::engine) struct PermitCounts {
    /// Never 0.
    by_key: Mutex<HashMap<Box<[u8]>, u64>>,
}

impl PermitCounts {
    pub(in crate::engine) fn count(&self, key: &[u8]) -> u64 {
        self.lock().get(key).copied().unwrap_or_default()
    }

    /// Counts one more, and says how many there are with it; `None` if there are so many already.
    pub(in crate::engine) fn add_below(&self, key: &[u8], max: u64) -> Option<u64> {
        let mut by_key = self.lock();
        match by_key.get_mut(key) {
            Some(open) if *open >= max => return None,
            Some(open) => *open += 1,
            None => _ = by_key.insert(key.into(), 1),
        }
        by_key.get(key).copied()
    }

    pub(in crate::engine) fn remove(&self, key: &[u8]) {
        let mut by_key = self.lock();
        if let Some(open) = by_key.get_mut(key) {
            *open -= 1;
            if *open == 0 {
                by_key.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, u64>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

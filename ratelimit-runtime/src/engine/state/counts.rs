//! [`PermitCounts`]: the numbers of permits that are open in this process, by key. By them a call
//! is refused without asking, and the limit holds in an outage.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of permits that a limiter has open, by key. It has at most as many entries as there
/// are calls in flight.
#[derive(Debug, Default)]
pub(in crate::engine) struct PermitCounts {
    /// No number is 0.
    by_key: Mutex<HashMap<Arc<[u8]>, u64>>,
}

impl PermitCounts {
    pub(in crate::engine) fn count(&self, key: &[u8]) -> u64 {
        self.lock().get(key).copied().unwrap_or_default()
    }

    /// Counts a permit, and returns the key's number with it; `None` if it is `max` already.
    pub(in crate::engine) fn add_below(&self, key: &Arc<[u8]>, max: u64) -> Option<u64> {
        debug_assert!(max > 0, "a permit can be had");
        let mut by_key = self.lock();
        let open = by_key.entry(Arc::clone(key)).or_default();
        if *open >= max {
            return None;
        }
        *open += 1;
        Some(*open)
    }

    pub(in crate::engine) fn remove(&self, key: &[u8]) {
        let mut by_key = self.lock();
        let open = by_key.get_mut(key);
        debug_assert!(open.is_some(), "a permit that is open is counted");
        if let Some(open) = open {
            *open -= 1;
            if *open == 0 {
                by_key.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, u64>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_open_permits_is_forgotten() {
        let (counts, key) = (PermitCounts::default(), Arc::from(*b"key"));
        assert_eq!(counts.add_below(&key, 1), Some(1));
        counts.remove(&key);
        assert!(counts.lock().is_empty());
    }
}

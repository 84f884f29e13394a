//! [`PermitId`]: the name of a permit, which its process chooses before it asks for a place.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of a permit: of its process, drawn at random, and a number. The process chooses it
/// before it asks, so a place can be left whose entry was never confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId {
    process: u64,
    number: u64,
}

impl PermitId {
    /// An id that no other permit has, of this process or of another.
    #[must_use]
    pub fn next() -> Self {
        /// The seed of the hasher is drawn from the operating system.
        static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self { process: *PROCESS, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }

    /// The number of the process that chose it: 64 bits that were drawn at its start.
    #[must_use]
    pub fn process(self) -> u64 {
        self.process
    }

    /// The number of the permit in its process, counted from 1.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_of_a_process_differ_by_their_number() {
        let ids: HashSet<PermitId> = (0..1_000).map(|_| PermitId::next()).collect();
        assert_eq!(ids.len(), 1_000);
        assert_eq!(ids.iter().map(|id| id.process()).collect::<HashSet<_>>().len(), 1);
    }
}

//! [`CallsInFlight`]: how many calls of a key may be in flight at a time.

use std::time::Duration;

/// The number of calls of a key that may be in flight at a time, and how long the permits of a
/// process that dies stay taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallsInFlight {
    pub(crate) max: u64,
    pub(crate) lease: Duration,
}

impl CallsInFlight {
    pub(crate) const MIN_LEASE: Duration = Duration::from_secs(5);
    pub(crate) const MAX_LEASE: Duration = Duration::from_secs(3600);
    pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);

    pub(super) const fn is_lease(lease: Duration) -> bool {
        lease.as_nanos() >= Self::MIN_LEASE.as_nanos()
            && lease.as_nanos() <= Self::MAX_LEASE.as_nanos()
    }
}

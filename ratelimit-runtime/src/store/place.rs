//! Places: an in-flight limit has some, and each call in flight takes one until it ends.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use super::Verdict;
use crate::rule::CallsInFlight;

/// The id of a permit. The process chooses it before it asks, so it can leave a place although the
/// reply to its request was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId {
    /// The number of the process that chose it: 64 bits that were drawn at its start.
    pub process: u64,
    /// The number of the permit in its process, counted from 1.
    pub number: u64,
}

impl PermitId {
    /// An id that no other permit has, of this process or of another.
    #[must_use]
    pub fn next() -> Self {
        /// The seed of the hasher is drawn from the operating system.
        static PROCESS: LazyLock<u64> =
            LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            process: *PROCESS,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// A place for a call in flight.
#[derive(Clone)]
pub struct PlaceRequest {
    /// The whole key: prefix, format, `cc`, name, and the rendered key.
    pub key: Arc<[u8]>,
    /// The name of the rule, as events and metrics show it; empty of a request by hand.
    pub rule: &'static str,
    /// How many calls of the key may be in flight at a time; it may differ from call to call.
    pub max: u64,
    /// How long the place stays taken when the process dies: 5 seconds to an hour. A store that
    /// other processes share renews the lease while the permit is open.
    pub lease: Duration,
    /// The permit that takes the place, or leaves it.
    pub permit: PermitId,
    /// When the caller stops waiting; `None` where it waits as long as it takes.
    pub timeout_at: Option<Instant>,
}

impl PlaceRequest {
    /// The shortest lease.
    pub const MIN_LEASE: Duration = CallsInFlight::MIN_LEASE;

    /// A request by hand, with a new permit, as tests of a store make it.
    #[must_use]
    pub fn new(key: &[u8], max: u64) -> Self {
        let (key, permit) = (key.into(), PermitId::next());
        Self {
            key,
            rule: "",
            max,
            lease: CallsInFlight::DEFAULT_LEASE,
            permit,
            timeout_at: None,
        }
    }
}

impl fmt::Debug for PlaceRequest {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule, max, permit, ..
        } = self;
        f.debug_struct("PlaceRequest")
            .field("rule", rule)
            .field("max", max)
            .field("permit", permit)
            .finish_non_exhaustive()
    }
}

/// The answer of a store to [`enter`](crate::store::BuiltInStore::enter).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whether all places are taken by other calls.
    pub is_full: bool,
    /// How many calls of the key are in flight, this one included if it has entered.
    pub in_flight: u64,
    /// One verdict for each request, in order. Where all places are taken, those that
    /// [`peek`](crate::Store::peek) would give, or none at all; they charge nothing.
    pub verdicts: Vec<Verdict>,
}

impl Entry {
    /// Whether the place is taken, and all requests are charged.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        !self.is_full && self.verdicts.iter().all(|verdict| verdict.allowed)
    }
}

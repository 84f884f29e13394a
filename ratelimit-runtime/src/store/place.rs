//! Places: what calls in flight take of an in-flight limit, and give back when they end.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Request, Verdict};
use crate::rule::{Algorithm, CallsInFlight, Name};

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

/// A place for a call in flight: the key, how many calls of it there may be at a time, and the
/// permit.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PlaceRequest<'a> {
    key: &'a [u8],
    rule_len: usize,
    name: Option<Name>,
    max: u64,
    lease: Duration,
    permit: PermitId,
    timeout_at: Option<Instant>,
}

impl<'a> PlaceRequest<'a> {
    /// The shortest lease.
    pub const MIN_LEASE: Duration = CallsInFlight::MIN_LEASE;

    /// A request by hand, as tests of a store make it.
    #[must_use]
    pub fn new(key: &'a [u8], max: u64, permit: PermitId) -> Self {
        let (rule_len, name, lease) = (0, None, CallsInFlight::DEFAULT_LEASE);
        Self { key, rule_len, name, max, lease, permit, timeout_at: None }
    }

    /// The same request with a lease of so long; at least 5 seconds, at most an hour.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Self::MIN_LEASE, CallsInFlight::MAX_LEASE);
        self
    }

    /// The same request for another permit.
    #[must_use]
    pub fn with_permit(mut self, permit: PermitId) -> Self {
        self.permit = permit;
        self
    }

    /// The same request of a caller who waits no longer than until this moment.
    #[must_use]
    pub fn with_timeout_at(mut self, timeout_at: Instant) -> Self {
        self.timeout_at = Some(timeout_at);
        self
    }

    pub(crate) fn of_rule(mut self, name: Name, rule_len: usize) -> Self {
        (self.name, self.rule_len) = (Some(name), rule_len);
        self
    }

    /// The whole key: prefix, format, `cc`, name, and the rendered key.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The part of [`key`](Self::key) that all keys of this rule share.
    #[must_use]
    pub fn rule_key(&self) -> &'a [u8] {
        self.key.get(..self.rule_len).unwrap_or_default()
    }

    /// The name of the rule, as events and metrics show it; empty of a request by hand.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.name.map_or("", Name::as_str)
    }

    /// How many calls of the key may be in flight at a time; it may differ from call to call.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// How long the place stays taken when the process dies. A store that other processes share
    /// renews the lease while the permit is open.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// The permit that takes the place, or leaves it.
    #[must_use]
    pub fn permit(&self) -> PermitId {
        self.permit
    }

    /// When the caller stops waiting; `None` where it waits as long as it takes.
    #[must_use]
    pub fn timeout_at(&self) -> Option<Instant> {
        self.timeout_at
    }

    /// A request about the same key, without limits: for the health of what keeps it.
    #[must_use]
    pub fn as_request(&self) -> Request<'a> {
        Request::new(self.key, Algorithm::SlidingWindow, &[]).with_rule_len(self.rule_len)
    }

    /// The same request with a key of its own.
    #[cfg(feature = "redis")]
    pub(crate) fn into_owned(self) -> OwnedPlaceRequest {
        OwnedPlaceRequest { key: self.key.into(), without: PlaceRequest { key: &[], ..self } }
    }
}

/// A [`PlaceRequest`] that borrows nothing; made by [`PlaceRequest::into_owned`].
#[cfg(feature = "redis")]
#[derive(Clone)]
pub(crate) struct OwnedPlaceRequest {
    key: Box<[u8]>,
    /// Everything else of it.
    without: PlaceRequest<'static>,
}

#[cfg(feature = "redis")]
impl OwnedPlaceRequest {
    pub(crate) fn as_request(&self) -> PlaceRequest<'_> {
        PlaceRequest { key: &self.key, ..self.without }
    }
}

#[cfg(feature = "redis")]
impl fmt::Debug for OwnedPlaceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_request().fmt(f)
    }
}

impl fmt::Debug for PlaceRequest<'_> {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceRequest")
            .field("rule", &String::from_utf8_lossy(self.rule_key()))
            .field("max", &self.max)
            .field("lease", &self.lease)
            .field("permit", &self.permit)
            .finish_non_exhaustive()
    }
}

/// What a store answers to [`enter`](crate::store::BuiltInStore::enter).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Whether all places are taken, by other calls than this one.
    pub is_full: bool,
    /// How many calls of the key are in flight, this one included if it has entered.
    pub in_flight: u64,
    /// One verdict for each request, in order. Where all places are taken, what
    /// [`peek`](crate::Store::peek) would say, or none at all.
    pub verdicts: Vec<Verdict>,
}

impl Entry {
    /// The answer where a place is free: it is taken, if all of these verdicts say `allowed`.
    #[must_use]
    pub fn free(in_flight: u64, verdicts: Vec<Verdict>) -> Self {
        Self { is_full: false, in_flight, verdicts }
    }

    /// The answer where no place is free; the verdicts charge nothing.
    #[must_use]
    pub fn full(in_flight: u64, verdicts: Vec<Verdict>) -> Self {
        Self { is_full: true, in_flight, verdicts }
    }

    /// Whether the place is taken, and all requests are charged.
    #[must_use]
    pub fn is_entered(&self) -> bool {
        !self.is_full && self.verdicts.iter().all(|verdict| verdict.allowed)
    }
}

//! Permits: an in-flight limit has some, and each call in flight holds one until it ends.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use super::Verdict;
use crate::rule::Terms;

/// The id of a permit. The process chooses it before it asks, so it can release a permit although
/// the reply to its request was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermitId {
    /// The number of the process that chose it: 64 bits, drawn at its start.
    pub process: u64,
    /// The number of the permit in its process: the nanosecond since 1970 at which it was chosen,
    /// or one more than the last.
    pub number: u64,
}

impl PermitId {
    /// An id that no other permit has, of this process or of another.
    #[must_use]
    pub fn next() -> Self {
        Self::of(std::process::id())
    }

    /// The next id of the process of this number in its system.
    fn of(process: u32) -> Self {
        /// The seed of the hasher is drawn from the operating system. A process that is forked has
        /// it too, and counts on.
        static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            process: SEED.hash_one(process),
            number: Self::number_after(&LAST),
        }
    }

    /// The next number. Processes that are restored from one snapshot, such as a virtual machine's,
    /// have all else in common, also the number of the process: counted, theirs would be the same.
    fn number_after(last: &AtomicU64) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(0);
        let next = |last: u64| now.max(last + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = last.fetch_update(set, fetch, |last| Some(next(last)));
        next(before.unwrap_or_else(|last| last))
    }
}

/// A request for the permit of a call in flight, or to release it.
#[derive(Clone)]
pub struct PermitRequest {
    /// The whole stored key: prefix, version of the format, `cc`, name, and the rendered key.
    pub key: Arc<[u8]>,
    /// The name of the rule, as events and metrics show it; empty of a request by hand.
    pub rule: &'static str,
    /// The most calls of the key in flight at a time, which may differ from call to call.
    pub max: u64,
    /// The time for which the permit is held after the process dies: 5 seconds to an hour. A store
    /// that other processes share renews the lease while the permit is open.
    pub lease: Duration,
    /// The permit to acquire or to release.
    pub id: PermitId,
    /// The time at which the caller stops waiting; `None` for no limit.
    pub timeout_at: Option<Instant>,
}

impl PermitRequest {
    /// The shortest lease: 5 seconds.
    pub const MIN_LEASE: Duration = Terms::MIN_LEASE;

    /// A request by hand, with a new permit, as tests of a store make it.
    #[must_use]
    pub fn new(key: &[u8], max: u64) -> Self {
        let (key, id) = (key.into(), PermitId::next());
        Self {
            key,
            rule: "",
            max,
            lease: Terms::DEFAULT_LEASE,
            id,
            timeout_at: None,
        }
    }
}

impl fmt::Debug for PermitRequest {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, max, id, .. } = self;
        f.debug_struct("PermitRequest")
            .field("rule", rule)
            .field("max", max)
            .field("id", id)
            .finish_non_exhaustive()
    }
}

/// The verdict of a store on a call's permit, if it asks for one, and on its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitVerdict {
    /// `true` if other calls hold all permits.
    pub is_full: bool,
    /// The number of calls of the key in flight, this one included if it has its permit.
    pub in_flight: u64,
    /// One verdict for each request, in order. If no permit is free, nothing is charged: the
    /// verdicts are those of [`peek`](crate::Store::peek), or there are none.
    pub verdicts: Vec<Verdict>,
}

impl PermitVerdict {
    /// The verdict of a call that asks for no permit.
    #[must_use]
    pub fn of_limits(verdicts: Vec<Verdict>) -> Self {
        Self {
            is_full: false,
            in_flight: 0,
            verdicts,
        }
    }

    /// `true` if the permit is acquired, and all requests are charged.
    #[must_use]
    pub fn is_acquired(&self) -> bool {
        !self.is_full && self.verdicts.iter().all(|verdict| verdict.allowed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::PermitId;

    /// It has the memory of the process that it was forked from.
    #[test]
    fn a_forked_process_chooses_ids_of_its_own() {
        let own = PermitId::next();
        assert_eq!(own.process, PermitId::next().process);
        assert_ne!(own.process, PermitId::of(std::process::id() + 1).process);
    }

    #[test]
    fn processes_of_one_snapshot_choose_ids_of_their_own() {
        let restored = [(); 2].map(|()| AtomicU64::new(7));
        let numbers = restored.each_ref().map(|last| {
            std::thread::sleep(Duration::from_millis(1));
            PermitId::number_after(last)
        });
        assert_ne!(numbers[0], numbers[1]);
        // By a clock that was set back.
        let ahead = AtomicU64::new(u64::MAX - 2);
        assert_eq!(PermitId::number_after(&ahead), u64::MAX - 1);
    }
}

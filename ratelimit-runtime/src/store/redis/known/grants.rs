//! [`Grants`]: units taken ahead, by key, algorithm and limits, bounded in number. A busy log has
//! several at a time, which are spent one after the other.
//!
//! Spending takes the read lock of the key's set and one step on the number of units that are left:
//! other keys do not wait.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::grant::Grant;
use super::moment::Moment;
use super::recent::{MOST, Recent};
use super::refusals::Refusals;
use super::sets::{SET_SIZE, Sets};
use crate::clock::{Clock, since_boot};
use crate::store::redis::settings::epochs::Epochs;
use crate::store::{Request, Reserves, Verdict};

/// The number of grants that there is room for.
const CAPACITY: usize = 2_048;
/// The fewest calls in a lease of a busy key; other keys are charged call by call.
const BUSY: u64 = 4;
/// The fewest units that are worth a question.
const LEAST: u64 = 8;
/// The most units that one question adds to a log.
const MOST_IN_LOG: u64 = 1_000;
/// The most grants of a key: of a log, more are fetched while the first is spent.
pub(super) const MOST_GRANTS: usize = 4;

pub(super) struct Grants {
    sets: Sets<Vec<Arc<Grant>>>,
    recent: Recent,
    /// The store's own clock, if it takes its time from this process.
    pub(super) clock: Option<Arc<dyn Clock>>,
    epochs: Epochs,
    /// The refusals of the store, which are void once units of their keys have been given back.
    refusals: Refusals,
}

impl Grants {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>, epochs: Epochs, refusals: Refusals) -> Self {
        Self {
            sets: Sets::new(CAPACITY),
            recent: Recent::new(),
            clock,
            epochs,
            refusals,
        }
    }

    /// The time, which goes on while the machine is suspended.
    pub(super) fn now(&self, key: &[u8]) -> Moment {
        let now = self.clock.as_ref().map_or_else(since_boot, Clock::now);
        Moment::new(now, &self.epochs, key)
    }

    /// The admission of a request by units taken ahead, unless a caller waits for some of its key.
    pub(super) fn spend(&self, request: &Request<'_>) -> Option<Verdict> {
        self.find(request, |grant, is_waited_for, now| {
            if is_waited_for {
                return None;
            }
            grant.spend(request.cost(), now)
        })?
    }

    /// The grant that may admit a request, and whether a caller waits for one of its key.
    pub(super) fn of(&self, request: &Request<'_>) -> Option<(Arc<Grant>, bool)> {
        self.find(request, |grant, is_waited_for, _| {
            (Arc::clone(grant), is_waited_for)
        })
    }

    fn find<T>(
        &self,
        request: &Request<'_>,
        then: impl FnOnce(&Arc<Grant>, bool, Moment) -> T,
    ) -> Option<T> {
        if !may_spend(request) {
            return None;
        }
        let hash = self.sets.hash(request.key());
        let (set, mut first, mut is_waited_for) = (self.sets.read(hash)?, None, false);
        let own = set.iter().filter(|grant| grant.of.is_of(hash, request));
        let mut own = own.peekable();
        own.peek()?;
        let now = self.now(request.key());
        for grant in own {
            is_waited_for |= grant.is_waited_for();
            if first.is_none() && grant.may_admit(request.cost(), now) {
                first = Some(grant);
            }
        }
        first.map(|grant| then(grant, is_waited_for, now))
    }

    /// The grant to fetch for a request that the server is asked, if its key is busy and has no
    /// grant. Ends a grant that has too few units for the request.
    pub(super) fn wanted(&self, request: &Request<'_>) -> Option<Arc<Grant>> {
        if !may_spend(request) {
            return None;
        }
        let (hash, now) = (self.sets.hash(request.key()), self.now(request.key()));
        for known in self.held(request.key()) {
            if known.of.is_of(hash, request) && known.is_used_up(request.cost(), now) {
                self.end(&known);
            }
        }
        let lease = request.prefetch_us.into();
        let recent = self.recent.add(hash, request.cost(), now.time, lease);
        let most = if request.algorithm().row().is_log {
            MOST_IN_LOG
        } else {
            MOST
        };
        let units = recent.min(most);
        if units < LEAST || recent / request.cost() < BUSY {
            return None;
        }
        self.begin(request, hash, units, 0..1)
    }

    /// A further grant of a log to fetch while this one is spent, because a question takes few
    /// units. All grants of a key hold at most the units spent in a lease, and a quarter of what
    /// the limits had left.
    pub(super) fn next(&self, spent: &Grant) -> Option<Arc<Grant>> {
        if !spent.of.algorithm.row().is_log {
            return None;
        }
        let (hash, now) = (spent.of.hash, self.now(&spent.of.key).time);
        let recent = self.recent.add(hash, 0, now, spent.lease);
        let most = recent.min(spent.remaining() / 4) / MOST_IN_LOG;
        let most = MOST_GRANTS.min(usize::try_from(most).unwrap_or(MOST_GRANTS));
        // If none is open, they were voided.
        self.begin(&spent.request(MOST_IN_LOG), hash, MOST_IN_LOG, 1..most)
    }

    /// Adds a grant to fetch, if the number of the key's open grants is in `so_many`. The first
    /// grant of a key replaces the least recently used one if there is no room.
    fn begin(
        &self,
        request: &Request<'_>,
        hash: u64,
        units: u64,
        so_many: Range<usize>,
    ) -> Option<Arc<Grant>> {
        let now = self.now(request.key()).time;
        let mut set = self.sets.write(hash)?;
        let open = set.iter().filter(|grant| !grant.is_over());
        let own = open.clone().filter(|grant| grant.of.is_of(hash, request));
        let (own, is_full) = (own.count(), open.clone().count() >= SET_SIZE);
        if !so_many.contains(&own) || own > 0 && is_full {
            return None;
        }
        if is_full {
            self.end(open.min_by_key(|grant| grant.of.last_use())?);
        }
        let grant = Arc::new(Grant::new(request, hash, units, now));
        set.push(Arc::clone(&grant));
        Some(grant)
    }

    /// Ends a grant, so that no more units of it are spent.
    pub(super) fn end(&self, grant: &Grant) {
        let spent = grant.end();
        if spent > 0 {
            let now = self.now(&grant.of.key).time;
            self.recent.add(grant.of.hash, spent, now, grant.lease);
        }
    }

    /// Removes a grant that gives back no more units, and drops the key's refusals if it has.
    pub(super) fn remove(&self, grant: &Arc<Grant>) {
        // Reads no clock: one of the application that panics may be why its task is dropped.
        let _ = grant.end();
        let key = &grant.of.key;
        if grant.owed(self.epochs.of(key)).is_some() {
            self.refusals.forget(key);
        }
        if let Some(mut set) = self.sets.write(grant.of.hash) {
            set.retain(|other| !Arc::ptr_eq(other, grant));
        }
    }

    /// All grants, including those that are still giving units back.
    pub(super) fn all(&self) -> Vec<Arc<Grant>> {
        let sets = self.sets.read_each();
        sets.flat_map(|set| set.clone()).collect()
    }

    /// The grants of a key, including those that are still giving units back.
    pub(super) fn held(&self, key: &[u8]) -> GrantsHeld {
        let hash = self.sets.hash(key);
        let set = self.sets.read(hash);
        let own = set.iter().flat_map(|set| set.iter());
        own.filter(|grant| grant.of.is_about(hash, key))
            .cloned()
            .collect()
    }
}

/// The grants of a key at one time.
pub(crate) type GrantsHeld = SmallVec<[Arc<Grant>; MOST_GRANTS]>;

/// `true` if units taken ahead may admit a request.
#[inline]
fn may_spend(request: &Request<'_>) -> bool {
    request.prefetch_us > 0
        && request.cost() > 0
        && request.reserves == Reserves::Nothing
        && request.block.first_us() == 0
}

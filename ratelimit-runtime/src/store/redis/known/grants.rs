//! [`Grants`]: units taken ahead, by key, algorithm and limits, bounded in number. A busy log has
//! several at a time, which are spent one after the other.
//!
//! Spending takes the read lock of the key's set and one step on the number of units that are left:
//! no other key waits for that.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::sync::watch;

use super::grant::Grant;
use super::moment::Moment;
use super::recent::Recent;
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
/// The most units that one question takes.
const MOST: u64 = 65_535;
/// The most units that one question adds to a log.
const MOST_IN_LOG: u64 = 1_000;
/// The most grants of a key: of a log, more are fetched while the first is spent.
pub(super) const MOST_GRANTS: usize = 4;

pub(super) struct Grants {
    sets: Sets<Vec<Arc<Grant>>>,
    recent: Recent,
    /// The store's own clock, if it takes its time from this process.
    clock: Option<Arc<dyn Clock>>,
    epochs: Epochs,
    /// Each receiver is a grant that is fetched, spent or given back.
    open: watch::Sender<()>,
}

impl Grants {
    pub(super) fn new(clock: Option<Arc<dyn Clock>>, epochs: Epochs) -> Self {
        Self {
            sets: Sets::new(CAPACITY),
            recent: Recent::new(),
            clock,
            epochs,
            open: watch::Sender::default(),
        }
    }

    /// The time, which goes on while the machine is suspended.
    pub(super) fn now(&self, key: &[u8]) -> Moment {
        let now = self.clock.as_ref().map_or_else(since_boot, Clock::now);
        Moment::new(now, &self.epochs, key)
    }

    /// The admission of a request by units taken ahead, unless a caller waits for some of its key.
    pub(super) fn spend(&self, request: &Request<'_>) -> Option<Verdict> {
        if !may_spend(request) {
            return None;
        }
        let hash = self.sets.hash(request.key());
        let (set, mut first) = (self.sets.read(hash)?, None);
        for grant in set.iter().filter(|grant| grant.of.is_of(hash, request)) {
            if grant.is_waited_for() {
                return None;
            }
            if first.is_none() && grant.may_admit(request.cost()) {
                first = Some(grant);
            }
        }
        first?.spend(request.cost(), || self.now(request.key()))
    }

    /// The grant that may admit a request, and whether a caller waits for one of its key.
    pub(super) fn of(&self, request: &Request<'_>) -> Option<(Arc<Grant>, bool)> {
        if !may_spend(request) {
            return None;
        }
        let (hash, now) = (self.sets.hash(request.key()), self.now(request.key()));
        let set = self.sets.read(hash)?;
        let own = set.iter().filter(|grant| grant.of.is_of(hash, request));
        let is_waited_for = own.clone().any(|grant| grant.is_waited_for());
        let mut own = own.filter(|grant| grant.may_admit(request.cost()) && grant.lasts(now));
        Some((Arc::clone(own.next()?), is_waited_for))
    }

    /// The grant to fetch for a request that the server is asked, if its key is busy and has none
    /// yet. One of which too few units are left for the request ends.
    pub(super) fn wanted(&self, request: &Request<'_>) -> Option<Arc<Grant>> {
        if !may_spend(request) {
            return None;
        }
        let (hash, now) = (self.sets.hash(request.key()), self.now(request.key()));
        let mut is_known = false;
        for known in self.held(request) {
            if known.is_used_up(request.cost(), now) {
                self.end(&known);
            }
            is_known |= !known.is_over();
        }
        let lease = request.prefetch_us.into();
        let recent = self.recent.add(hash, request.cost(), now.time, lease);
        let most = if request.algorithm().row().is_log {
            MOST_IN_LOG
        } else {
            MOST
        };
        let units = recent.min(most);
        if is_known || units < LEAST || recent / request.cost() < BUSY {
            return None;
        }
        self.begin(request, hash, units, now.time)
    }

    /// Adds a grant to fetch, unless there is one. The least recently used one makes room.
    fn begin(&self, request: &Request<'_>, hash: u64, units: u64, now: u64) -> Option<Arc<Grant>> {
        let mut set = self.sets.write(hash)?;
        let live = set.iter().filter(|grant| !grant.is_over());
        if live.clone().any(|grant| grant.of.is_of(hash, request)) {
            return None;
        }
        let grant = Arc::new(Grant::new(request, hash, units, now));
        if live.clone().count() >= SET_SIZE {
            self.end(live.min_by_key(|grant| grant.of.last_use())?);
        }
        set.push(Arc::clone(&grant));
        Some(grant)
    }

    /// A further grant of a log to fetch while this one is spent, as one question takes few, where
    /// there is room for it. All of a key are worth no more than the calls of a lease, and than a
    /// quarter of what was left.
    pub(super) fn next(&self, spent: &Arc<Grant>) -> Option<Arc<Grant>> {
        if !spent.of.algorithm.row().is_log {
            return None;
        }
        let (hash, now) = (spent.of.hash, self.now(&spent.of.key).time);
        let recent = self.recent.add(hash, 0, now, spent.lease);
        let most = recent.min(spent.remaining() / 4) / MOST_IN_LOG;
        let request = spent.request(MOST_IN_LOG);
        let mut set = self.sets.write(hash)?;
        let live = set.iter().filter(|grant| !grant.is_over());
        let own = live.clone().filter(|grant| grant.of.is_of(hash, &request));
        let (live, own) = (live.count(), own.count());
        // If it is over, it was voided.
        if spent.is_over() || own >= MOST_GRANTS || own as u64 >= most || live >= SET_SIZE {
            return None;
        }
        let grant = Arc::new(Grant::new(&request, hash, MOST_IN_LOG, now));
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

    /// Ends a grant of which nothing will be given back any more.
    pub(super) fn remove(&self, grant: &Arc<Grant>) {
        // Reads no clock: one of the application that panics may be why its task is dropped.
        let _ = grant.end();
        if let Some(mut set) = self.sets.write(grant.of.hash) {
            set.retain(|other| !Arc::ptr_eq(other, grant));
        }
    }

    /// The grants of a key that are on their way to this runtime.
    pub(super) fn on_their_way(&self, key: &[u8]) -> Vec<Arc<Grant>> {
        let hash = self.sets.hash(key);
        let set = self.sets.read(hash);
        let own = set.iter().flat_map(|set| set.iter());
        own.filter(|grant| grant.of.is_about(hash, key) && grant.is_on_its_way())
            .cloned()
            .collect()
    }

    /// Ends the grants of a key, including those on their way.
    pub(super) fn void(&self, key: &[u8]) {
        let hash = self.sets.hash(key);
        let set = self.sets.read(hash);
        let all = set.iter().flat_map(|set| set.iter());
        let own = all.filter(|grant| grant.of.is_about(hash, key));
        own.for_each(|grant| self.end(grant));
    }

    /// Ends all grants; what is left of them is given back by their tasks.
    pub(super) fn void_all(&self) {
        for set in self.sets.write_each() {
            set.iter().for_each(|grant| self.end(grant));
        }
    }

    /// A receiver for a grant that is fetched, spent or given back until it is dropped.
    pub(super) fn opened(&self) -> watch::Receiver<()> {
        self.open.subscribe()
    }

    /// Waits until no grant is fetched, spent or given back.
    pub(super) async fn ended(&self) {
        self.open.closed().await;
    }

    /// The grants of a request's key, until all is given back.
    pub(super) fn held(&self, request: &Request<'_>) -> GrantsHeld {
        let hash = self.sets.hash(request.key());
        let set = self.sets.read(hash);
        let own = set.iter().flat_map(|set| set.iter());
        own.filter(|grant| grant.of.is_of(hash, request))
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

//! [`Grants`]: units taken ahead, by key, algorithm and limits, bounded in number.
//!
//! Spending takes the read lock of the key's set and one step on the number of units that are left:
//! no other key waits for that.

use std::sync::Arc;

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

    /// The admission of a request by units taken ahead.
    pub(super) fn spend(&self, request: &Request<'_>) -> Option<Verdict> {
        if !may_spend(request) {
            return None;
        }
        let hash = self.sets.hash(request.key());
        let set = self.sets.read(hash)?;
        let grant = set.iter().find(|grant| grant.of.is_of(hash, request))?;
        if grant.is_waited_for() {
            return None;
        }
        grant.spend(request.cost(), || self.now(request.key()))
    }

    /// The grant that may admit a request.
    pub(super) fn of(&self, request: &Request<'_>) -> Option<Arc<Grant>> {
        let grant = self.find(self.sets.hash(request.key()), request)?;
        (may_spend(request) && grant.may_admit(request.cost())).then_some(grant)
    }

    /// The grant to fetch for a request that the server is asked, if its key is busy and has none
    /// yet.
    ///
    /// # Errors
    ///
    /// The grant of a request that costs more than is left of it, which ends and is given back.
    pub(super) fn wanted(&self, request: &Request<'_>) -> Result<Option<Arc<Grant>>, Arc<Grant>> {
        if !may_spend(request) {
            return Ok(None);
        }
        let (hash, now) = (self.sets.hash(request.key()), self.now(request.key()));
        let mut is_known = false;
        if let Some(known) = self.find(hash, request) {
            let has_too_few = known.has_too_few(request.cost());
            is_known = !has_too_few && !known.is_used_up(request.cost(), now);
            if !is_known {
                self.end(&known);
            }
            if has_too_few {
                return Err(known);
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
        if is_known || units < LEAST || recent / request.cost() < BUSY {
            return Ok(None);
        }
        Ok(self.begin(request, hash, units, now.time))
    }

    /// Adds a grant to fetch, unless there is one. The least recently used one makes room.
    fn begin(&self, request: &Request<'_>, hash: u64, units: u64, now: u64) -> Option<Arc<Grant>> {
        let mut set = self.sets.write(hash)?;
        if set.iter().any(|grant| grant.of.is_of(hash, request)) {
            return None;
        }
        let grant = Arc::new(Grant::new(request, hash, units, now));
        let least = set.iter().enumerate().filter(|_| set.len() >= SET_SIZE);
        let least = least.min_by_key(|(_, grant)| grant.of.last_use());
        if let Some((at, _)) = least {
            set.swap_remove(at).end();
        }
        set.push(Arc::clone(&grant));
        Some(grant)
    }

    /// Ends a grant, so that no more units of it are spent.
    pub(super) fn end(&self, grant: &Arc<Grant>) {
        let spent = grant.end();
        if spent > 0 {
            let now = self.now(&grant.of.key).time;
            self.recent.add(grant.of.hash, spent, now, grant.lease);
        }
        if let Some(mut set) = self.sets.write(grant.of.hash) {
            set.retain(|other| !Arc::ptr_eq(other, grant));
        }
    }

    /// Ends the grants of a key, including those on their way. If the server has forgotten the key,
    /// nothing is given back.
    pub(super) fn void(&self, key: &[u8], is_forgotten: bool) {
        let hash = self.sets.hash(key);
        if let Some(mut set) = self.sets.write(hash) {
            for grant in set.extract_if(.., |grant| grant.of.is_about(hash, key)) {
                if is_forgotten {
                    grant.forget();
                }
                grant.end();
            }
        }
    }

    /// Ends all grants; what is left of them is given back by their tasks.
    pub(super) fn void_all(&self) {
        for mut set in self.sets.write_each() {
            for grant in set.drain(..) {
                grant.end();
            }
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

    fn find(&self, hash: u64, request: &Request<'_>) -> Option<Arc<Grant>> {
        let set = self.sets.read(hash)?;
        set.iter()
            .find(|grant| grant.of.is_of(hash, request))
            .cloned()
    }
}

/// `true` if units taken ahead may admit a request.
#[inline]
fn may_spend(request: &Request<'_>) -> bool {
    request.prefetch_us > 0
        && request.cost() > 0
        && request.reserves == Reserves::Nothing
        && request.block.first_us() == 0
}

//! [`OpenPermits`]: which permits are open, and what is due of each. No I/O.
//!
//! Between any two calls of these functions, of each permit one of these holds:
//!
//! - it is in the `due` of its driver, under the moment that it has itself;
//! - a call is pending that says what becomes of it: the one that enters, one that carries its
//!   leaving along, or one of the driver's own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Id;
use tokio::sync::mpsc;

use crate::store::redis::backoff::random_part;
use crate::store::redis::connection::pulse::{BEAT, Pulse};
use crate::store::redis::scripts::place::{self, PermitMember, PlaceOperation, PlaceOutcome};
use crate::store::redis::scripts::protocol::Question;
use crate::store::{OwnedPlaceRequest, PermitId, PlaceRequest};

/// Leases are renewed so many times while they last.
const RENEWALS: u32 = 3;
/// After this pause, what has failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How many permits one call carries: it keeps the server for about 250 µs.
pub(super) const MAX_BATCH: usize = 64;
/// How many of a driver's calls are on their way at a time, so that one server that hangs does not
/// keep the others waiting.
const MAX_SENDING: usize = 64;
/// How many permits leave with a call that enters.
const MAX_CARRIED: usize = 64;

/// `P` is what drivers are woken with: a reference to all this, so that what is left to them is
/// sent even if the store is dropped meanwhile.
pub(super) struct OpenPermits<P> {
    permits: HashMap<PermitId, OpenPermit>,
    /// Permits that leave, by key.
    leaving: HashMap<Box<[u8]>, BTreeSet<PermitId>>,
    drivers: Vec<Driver<P>>,
    /// Whether a permit may be left to no driver.
    has_orphans: bool,
    /// Before anything else was due. What leaves is due then: ahead of all that is renewed.
    first: Instant,
}

struct OpenPermit {
    place: OwnedPlaceRequest,
    /// Of the driver that it is left to.
    runtime: Id,
    pending: Option<PendingCall>,
    due: Option<Instant>,
    leaves: bool,
    /// Whether a call that was given up may still enter: then only the driver's own call, which
    /// comes behind it, leaves for sure.
    is_unknown: bool,
    leased_until: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingCall {
    Entering,
    /// Another permit's entering carries its leaving along.
    Carried,
    Renewing,
    Leaving,
}

/// The task that sends what is due, of one runtime.
struct Driver<P> {
    runtime: Id,
    pulse: Arc<Pulse>,
    wake: mpsc::Sender<P>,
    due: BTreeSet<(Instant, PermitId)>,
    sending: usize,
    /// Its task has found no permits, and waits for nothing but to be woken.
    is_idle: bool,
    /// Others have taken over what was left to it, until it gets a turn.
    is_relieved: bool,
    /// How many connections there had been when leases were last renewed for that.
    connections: Option<u64>,
}

/// What became of a call that entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnterOutcome {
    /// It was sent at this moment, or later.
    Entered(Instant),
    Refused,
    /// It was not sent.
    NotAsked,
    /// It may have been carried out, or may be yet.
    Unknown,
}

/// What is to be sent of a permit.
pub(super) struct Upkeep {
    pub(super) permit: PermitId,
    pub(super) runtime: Id,
    pub(super) operation: PlaceOperation,
    pub(super) place: OwnedPlaceRequest,
    pub(super) question: Question,
}

/// What an answer means for a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpkeepResult {
    Well,
    /// A call of this rule has lost its place.
    Lost(&'static str),
    /// The place of a call of this rule could not be left in time, and lapses.
    NotLeft(&'static str),
}

impl<P: Clone> OpenPermits<P> {
    pub(super) fn new(now: Instant) -> Self {
        let (permits, leaving) = (HashMap::new(), HashMap::new());
        Self { permits, leaving, drivers: Vec::new(), has_orphans: false, first: now }
    }

    /// Notes that a call is about to enter. Gives the permits of the key that leave with it: those
    /// whose leaving it confirms, and all of them as members.
    pub(super) fn begin(&mut self, place: &PlaceRequest<'_>, runtime: Id) -> (Vec<PermitId>, Vec<PermitMember>) {
        let (mut carried, mut members) = (Vec::new(), Vec::new());
        for id in self.leaving.get(place.key()).into_iter().flatten().take(MAX_CARRIED) {
            let Some(permit) = self.permits.get_mut(id) else { continue };
            members.push(PermitMember::new(*id, &permit.place.as_request()));
            if permit.pending.is_none() && !permit.is_unknown {
                permit.pending = Some(PendingCall::Carried);
                if let Some(due) = permit.due.take()
                    && let Some(driver) = driver_of(&mut self.drivers, permit.runtime)
                {
                    driver.due.remove(&(due, *id));
                }
                carried.push(*id);
            }
        }
        let permit = OpenPermit {
            place: place.into_owned(),
            runtime,
            pending: Some(PendingCall::Entering),
            due: None,
            leaves: false,
            is_unknown: false,
            leased_until: Instant::now() + place.lease(),
        };
        self.permits.insert(place.permit(), permit);
        (carried, members)
    }

    /// The permits of a key that leave, as members. Leaving twice does nothing.
    pub(super) fn leaving(&self, key: &[u8]) -> Vec<PermitMember> {
        let ids = self.leaving.get(key).into_iter().flatten().take(MAX_CARRIED);
        ids.filter_map(|id| Some(PermitMember::new(*id, &self.permits.get(id)?.place.as_request()))).collect()
    }

    /// Notes what became of a call that entered, and of the permits that left with it.
    pub(super) fn end(&mut self, id: PermitId, carried: &[PermitId], ended: EnterOutcome) {
        for id in carried {
            match ended {
                EnterOutcome::Entered(_) | EnterOutcome::Refused => self.remove(*id),
                EnterOutcome::NotAsked | EnterOutcome::Unknown => self.set_due(*id, self.first),
            }
        }
        let Some(permit) = self.permits.get_mut(&id) else { return };
        let (now, lease) = (Instant::now(), permit.place.as_request().lease());
        match ended {
            EnterOutcome::Refused | EnterOutcome::NotAsked => self.remove(id),
            EnterOutcome::Entered(sent_at) => {
                permit.leased_until = sent_at + lease;
                let third = lease / RENEWALS;
                // Permits that entered together are not renewed together.
                let due = if permit.leaves { self.first } else { sent_at + third / 2 + random_part(third / 2) };
                self.set_due(id, due);
            }
            EnterOutcome::Unknown => {
                (permit.is_unknown, permit.leaves, permit.leased_until) = (true, true, now + lease);
                self.note_leaving(id);
                self.set_due(id, self.first);
            }
        }
    }

    /// Notes that a permit leaves; `runtime` is the caller's, if there is one. Gives its rule if no
    /// driver is left to send that.
    pub(super) fn leave(&mut self, id: PermitId, runtime: Option<Id>) -> Option<&'static str> {
        let permit = self.permits.get_mut(&id)?;
        if std::mem::replace(&mut permit.leaves, true) {
            return None;
        }
        let (rule, is_free) = (permit.place.as_request().rule(), permit.pending.is_none());
        self.note_leaving(id);
        // What is on its way comes first: the place is left once that has ended.
        if is_free {
            self.move_to(id, runtime);
            self.set_due(id, self.first);
        }
        self.drivers.is_empty().then_some(rule)
    }

    /// Takes what is due on a runtime, for one call each; the rest is not due before the moment
    /// that comes along.
    pub(super) fn take_due(&mut self, runtime: Id, now: Instant) -> (Vec<Upkeep>, Option<Instant>) {
        let mut taken = Vec::new();
        let Some(driver) = driver_of(&mut self.drivers, runtime) else { return (taken, None) };
        driver.is_idle = self.permits.is_empty();
        while taken.len() < MAX_BATCH && driver.sending < MAX_SENDING {
            let Some(&(due, id)) = driver.due.first().filter(|(due, _)| *due <= now) else { break };
            driver.due.remove(&(due, id));
            let Some(permit) = self.permits.get_mut(&id) else { continue };
            permit.due = None;
            let (operation, pending) = if permit.leaves {
                (PlaceOperation::Leave, PendingCall::Leaving)
            } else {
                (PlaceOperation::Renew, PendingCall::Renewing)
            };
            permit.pending = Some(pending);
            let place = permit.place.clone();
            let question = place::question(operation, &place.as_request(), &[]);
            taken.push(Upkeep { permit: id, runtime, operation, place, question });
        }
        // Where too much is on its way, the end of one call wakes the driver.
        let is_full = driver.sending >= MAX_SENDING;
        (taken, driver.due.first().map(|(due, _)| *due).filter(|_| !is_full))
    }

    /// Notes that a driver sends a call.
    pub(super) fn note_sending(&mut self, runtime: Id) {
        if let Some(driver) = driver_of(&mut self.drivers, runtime) {
            driver.sending += 1;
        }
    }

    /// Notes that one has ended.
    pub(super) fn note_sent(&mut self, runtime: Option<Id>) {
        if let Some(driver) = runtime.and_then(|runtime| driver_of(&mut self.drivers, runtime)) {
            driver.sending = driver.sending.saturating_sub(1);
        }
    }

    /// Notes what was answered about a permit, to a question that was sent at this moment.
    pub(super) fn note_outcome(
        &mut self,
        upkeep: &Upkeep,
        outcome: PlaceOutcome,
        sent_at: Instant,
        now: Instant,
    ) -> UpkeepResult {
        use PlaceOutcome::{Done, EnteredAgain, Failed, Refused};
        let id = upkeep.permit;
        let Some(permit) = self.permits.get_mut(&id) else {
            if upkeep.operation == PlaceOperation::Renew && matches!(outcome, Done | EnteredAgain) {
                self.leave_again(upkeep, sent_at);
            }
            return UpkeepResult::Well;
        };
        let place = permit.place.as_request();
        let (rule, lease, leaves) = (place.rule(), place.lease(), permit.leaves);
        let leased_until = permit.leased_until;
        match (upkeep.operation, outcome) {
            (PlaceOperation::Leave, Done | Refused | EnteredAgain) => self.remove(id),
            (PlaceOperation::Leave, Failed) if leased_until < now => {
                self.remove(id);
                return UpkeepResult::NotLeft(rule);
            }
            (_, Done | EnteredAgain) => {
                permit.leased_until = sent_at + lease;
                self.set_due(id, if leaves { self.first } else { sent_at + lease / RENEWALS });
            }
            (_, Refused) => {
                self.remove(id);
                if !leaves {
                    return UpkeepResult::Lost(rule);
                }
            }
            (_, Failed) if leaves && upkeep.operation == PlaceOperation::Renew => self.set_due(id, self.first),
            (_, Failed) => self.set_due(id, now + RETRY),
        }
        UpkeepResult::Well
    }

    /// Lets a permit leave whose renewal came behind its leaving, and took the place anew: the
    /// driver that had sent the one stood still while another one sent the other.
    fn leave_again(&mut self, renewal: &Upkeep, sent_at: Instant) {
        let (id, place) = (renewal.permit, renewal.place.clone());
        let leased_until = sent_at + place.as_request().lease();
        let (runtime, pending, due) = (renewal.runtime, None, None);
        let permit = OpenPermit { place, runtime, pending, due, leaves: true, is_unknown: false, leased_until };
        self.permits.insert(id, permit);
        self.note_leaving(id);
        self.move_to(id, Some(runtime));
        self.set_due(id, self.first);
    }

    /// Adds the driver of a runtime.
    pub(super) fn add_driver(&mut self, runtime: Id, pulse: Arc<Pulse>, wake: mpsc::Sender<P>) {
        let (due, sending, is_idle, is_relieved, connections) = (BTreeSet::new(), 0, false, false, None);
        self.drivers.push(Driver { runtime, pulse, wake, due, sending, is_idle, is_relieved, connections });
        self.adopt(runtime);
    }

    pub(super) fn has_driver(&self, runtime: Id) -> bool {
        self.drivers.iter().any(|driver| driver.runtime == runtime)
    }

    /// The driver of a runtime has ended: what was left to it is left to another.
    pub(super) fn remove_driver(&mut self, runtime: Id) {
        self.drivers.retain(|driver| driver.runtime != runtime);
        self.has_orphans = true;
        if let Some(other) = self.drivers.first() {
            let other = other.runtime;
            self.adopt(other);
        }
    }

    /// Takes over what was left to drivers that have ended, or whose runtime does not drive them.
    pub(super) fn adopt(&mut self, runtime: Id) {
        let mut takes_over = std::mem::take(&mut self.has_orphans);
        for driver in &mut self.drivers {
            let is_late = driver.runtime != runtime && driver.pulse.is_late();
            takes_over |= is_late && !driver.is_relieved;
            driver.is_relieved = is_late;
        }
        if !takes_over {
            return;
        }
        let driven: Vec<Id> = self.driven().collect();
        let is_orphan = |permit: &OpenPermit| {
            !driven.contains(&permit.runtime)
                // The call that enters says what becomes of these.
                && !matches!(permit.pending, Some(PendingCall::Entering | PendingCall::Carried))
        };
        let orphans: Vec<PermitId> =
            self.permits.iter().filter(|(_, permit)| is_orphan(permit)).map(|(id, _)| *id).collect();
        for id in orphans {
            let Some(permit) = self.permits.get(&id) else { continue };
            let due = permit.due.unwrap_or(if permit.leaves { self.first } else { Instant::now() });
            self.move_to(id, Some(runtime));
            self.set_due(id, due);
        }
    }

    /// Lets all leases of a driver be renewed now, if there has been another connection since they
    /// last were for that: the server may be another, or may have forgotten.
    pub(super) fn note_connections(&mut self, runtime: Id, connections: u64, now: Instant) {
        let Some(driver) = driver_of(&mut self.drivers, runtime) else { return };
        if driver.connections.replace(connections).is_none_or(|last| last == connections) {
            return;
        }
        let later: Vec<(Instant, PermitId)> = driver.due.iter().filter(|(due, _)| *due > now).copied().collect();
        for (_, id) in later {
            self.set_due(id, now);
        }
    }

    /// Wakes drivers that have something to do at once, or for the first time since they were idle.
    pub(super) fn wake(&self, permits: &P) {
        let now = Instant::now();
        for driver in &self.drivers {
            let is_due = driver.due.first().is_some_and(|(due, _)| driver.is_idle || *due <= now);
            if (is_due && driver.sending < MAX_SENDING || self.has_orphans)
                && driver.wake.try_send(permits.clone()).is_ok()
            {
                driver.pulse.due_in(Some(BEAT));
            }
        }
    }

    /// The runtimes whose drivers get their turns, as far as is known.
    fn driven(&self) -> impl Iterator<Item = Id> {
        self.drivers.iter().filter(|driver| !driver.is_relieved).map(|driver| driver.runtime)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.permits.is_empty()
    }

    /// Leaves a permit to the driver of this runtime, if there is one, else to its own, else to
    /// any.
    fn move_to(&mut self, id: PermitId, runtime: Option<Id>) {
        let Some(permit) = self.permits.get(&id) else { return };
        // Behind the call that may still enter, only its own runtime's connection leaves for sure.
        let preferred =
            if permit.is_unknown { [Some(permit.runtime), runtime] } else { [runtime, Some(permit.runtime)] };
        let is_driven = |runtime: &Id| self.driven().any(|driven| driven == *runtime);
        let chosen = preferred.into_iter().flatten().find(is_driven).or_else(|| self.driven().next());
        let Some(chosen) = chosen else { return };
        let Some(permit) = self.permits.get_mut(&id) else { return };
        if chosen != permit.runtime
            && let Some(due) = permit.due.take()
            && let Some(driver) = driver_of(&mut self.drivers, permit.runtime)
        {
            driver.due.remove(&(due, id));
        }
        permit.runtime = chosen;
    }

    /// Lets a permit be due at this moment. Nothing of it is on its way any more.
    fn set_due(&mut self, id: PermitId, at: Instant) {
        let Some(permit) = self.permits.get_mut(&id) else { return };
        permit.pending = None;
        let Some(driver) = driver_of(&mut self.drivers, permit.runtime) else {
            (permit.due, self.has_orphans) = (None, true);
            return;
        };
        if let Some(due) = permit.due.replace(at) {
            driver.due.remove(&(due, id));
        }
        driver.due.insert((at, id));
        self.has_orphans |= driver.is_relieved;
    }

    fn note_leaving(&mut self, id: PermitId) {
        let Some(permit) = self.permits.get(&id) else { return };
        self.leaving.entry(permit.place.as_request().key().into()).or_default().insert(id);
    }

    fn remove(&mut self, id: PermitId) {
        let Some(permit) = self.permits.remove(&id) else { return };
        if let Some(due) = permit.due
            && let Some(driver) = driver_of(&mut self.drivers, permit.runtime)
        {
            driver.due.remove(&(due, id));
        }
        let key = permit.place.as_request().key();
        if permit.leaves
            && let Some(leaving) = self.leaving.get_mut(key)
        {
            leaving.remove(&id);
            if leaving.is_empty() {
                self.leaving.remove(key);
            }
        }
    }
}

fn driver_of<P>(drivers: &mut [Driver<P>], runtime: Id) -> Option<&mut Driver<P>> {
    drivers.iter_mut().find(|driver| driver.runtime == runtime)
}

//! [`OpenPermits`]: the open permits of a client, and when each is due. No I/O, no clock.
//!
//! Between any two calls of these functions, each permit is either in `due`, under the moment that
//! it has itself, or a call of its own is pending that was taken by
//! [`take_due`](OpenPermits::take_due), and says what becomes of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::{PermitId, PlaceRequest};

/// Leases are renewed so many times while they last.
const RENEWALS: u32 = 3;
/// The pause before a failed call is repeated.
const RETRY: Duration = Duration::from_secs(1);
/// How many permits a call of their key carries along that leave.
pub(super) const MAX_CARRIED: usize = 64;

#[derive(Default)]
pub(super) struct OpenPermits {
    permits: HashMap<PermitId, OpenPermit>,
    /// Permits that leave, by key.
    leaving: BTreeSet<(Arc<[u8]>, PermitId)>,
    due: BTreeSet<(Instant, PermitId)>,
    /// Whether the task waits for the first permit.
    pub(super) is_asleep: bool,
    /// Whether the client is gone: no permit enters any more.
    pub(super) is_closed: bool,
}

struct OpenPermit {
    place: PlaceRequest,
    /// `None` while a call is pending.
    due: Option<Instant>,
    /// Of a permit that leaves: until when that is tried. By then its lease has ended.
    leaves_until: Option<Instant>,
}

/// A permit that is to leave or to be renewed, by a call of its own.
pub(super) struct DuePermit {
    pub(super) place: PlaceRequest,
    pub(super) leaves: bool,
}

/// The permit of a place as the member of a sorted set.
pub(super) fn member(place: &PlaceRequest) -> String {
    let PermitId { process, number } = place.permit;
    format!("{process:016x}.{number}.{}", place.lease.as_millis())
}

impl OpenPermits {
    /// Notes that a call is about to enter. Its permit is known from now on, so that its place is
    /// left whatever becomes of the answer. That comes long before the lease is over. Gives the
    /// permits of the key that [leave](Self::leaving).
    pub(super) fn enter(&mut self, place: &PlaceRequest, now: Instant) -> Vec<String> {
        self.permits.insert(
            place.permit,
            OpenPermit {
                place: place.clone(),
                due: None,
                leaves_until: None,
            },
        );
        self.set_due(place.permit, now + place.lease);
        self.leaving(&place.key)
    }

    /// The permits of a key that leave, as members: a call carries them along, because their own
    /// calls may come behind it. Leaving twice does nothing.
    pub(super) fn leaving(&self, key: &Arc<[u8]>) -> Vec<String> {
        let first = (
            Arc::clone(key),
            PermitId {
                process: 0,
                number: 0,
            },
        );
        let ids = self
            .leaving
            .range(first..)
            .take_while(|(of, _)| of == key)
            .take(MAX_CARRIED);
        ids.filter_map(|(_, id)| Some(member(&self.permits.get(id)?.place)))
            .collect()
    }

    /// Notes that a call has entered that was sent at `sent_at`.
    pub(super) fn entered(&mut self, id: PermitId, sent_at: Instant) {
        let Some(permit) = self
            .permits
            .get(&id)
            .filter(|permit| permit.leaves_until.is_none())
        else {
            return;
        };
        // Permits that entered together are not renewed together.
        let sixth = permit.place.lease / RENEWALS / 2;
        let part = u32::try_from(id.number % 64).unwrap_or_default();
        self.set_due(id, sent_at + sixth + sixth / 64 * part);
    }

    /// Notes that a permit leaves, after its pending call if there is one. Says whether it is known.
    pub(super) fn leave(&mut self, id: PermitId, now: Instant) -> bool {
        let Some(permit) = self.permits.get_mut(&id) else {
            return false;
        };
        if permit.leaves_until.is_none() {
            permit.leaves_until = Some(now + permit.place.lease);
            self.leaving.insert((Arc::clone(&permit.place.key), id));
            if permit.due.is_some() {
                self.set_due(id, now);
            }
        }
        true
    }

    /// Takes at most `room` due permits, for a call each.
    pub(super) fn take_due(&mut self, now: Instant, room: usize) -> Vec<DuePermit> {
        let mut taken = Vec::new();
        while taken.len() < room
            && self.is_due(now)
            && let Some((_, id)) = self.due.pop_first()
        {
            let Some(permit) = self.permits.get_mut(&id) else {
                continue;
            };
            permit.due = None;
            taken.push(DuePermit {
                place: permit.place.clone(),
                leaves: permit.leaves_until.is_some(),
            });
        }
        taken
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.first().is_some_and(|(due, _)| *due <= now)
    }

    /// Notes the end of a call that was taken, and sent at `sent_at`. `done` is the reply: whether it
    /// has left or renewed; `None` if none came. Says whether the call in flight has lost its place.
    pub(super) fn note(
        &mut self,
        call: &DuePermit,
        done: Option<bool>,
        sent_at: Instant,
        now: Instant,
    ) -> bool {
        let PlaceRequest {
            permit: id, lease, ..
        } = call.place;
        let Some(leaves_until) = self.permits.get(&id).map(|permit| permit.leaves_until) else {
            return false;
        };
        match (done, leaves_until) {
            (Some(true), None) => self.set_due(id, sent_at + lease / RENEWALS),
            (None, None) => self.set_due(id, now + RETRY),
            // It was renewed, and leaves now.
            (Some(true), Some(_)) if !call.leaves => self.set_due(id, now),
            (None, Some(until)) if now <= until => {
                self.set_due(id, if call.leaves { now + RETRY } else { now })
            }
            // It has left or has no place, or its lease is over.
            _ => self.forget(id),
        }
        done == Some(false) && leaves_until.is_none()
    }

    /// Lets all leases be renewed now.
    pub(super) fn renew_all(&mut self, now: Instant) {
        let all: Vec<PermitId> = self.due.iter().map(|(_, id)| *id).collect();
        for id in all {
            self.set_due(id, now);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.permits.is_empty()
    }

    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Lets a permit be due at this moment. Nothing of it is pending any more.
    fn set_due(&mut self, id: PermitId, at: Instant) {
        let Some(permit) = self.permits.get_mut(&id) else {
            return;
        };
        if let Some(due) = permit.due.replace(at) {
            self.due.remove(&(due, id));
        }
        self.due.insert((at, id));
    }

    /// Forgets a permit that has no place.
    pub(super) fn forget(&mut self, id: PermitId) {
        let Some(permit) = self.permits.remove(&id) else {
            return;
        };
        if let Some(due) = permit.due {
            self.due.remove(&(due, id));
        }
        self.leaving.remove(&(permit.place.key, id));
    }
}

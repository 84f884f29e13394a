//! [`OpenPermits`]: the open permits of a client, and when each is due. No I/O, no clock.
//!
//! Between any two calls of these functions, each permit is either due at a time of its own, or has
//! one pending call, taken by [`take_due`](OpenPermits::take_due), whose end decides what is next.
//!
//! The number of pending calls is bounded for each server by itself: a server that does not answer
//! holds back its own permits, and none of another. A permit counts for the server that its key has
//! when it becomes due, so that it follows a slot that moves. A server that is away is asked by one
//! call for all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Servers;
use crate::store::{Health, PermitId, PermitRequest};

/// The number of times that a lease is renewed within its length.
const RENEWALS: u32 = 3;
/// The pause before a failed call is repeated.
const RETRY: Duration = Duration::from_secs(1);
/// The time for which a permit is not due whose own call has not ended: to renew it would acquire
/// it, although the reply, which is not read yet, may be a refusal.
const UNTIL_ANSWERED: Duration = Duration::from_secs(365 * 86_400);
/// The most permits that a call on their key releases along with its own.
pub(crate) const MAX_CARRIED: usize = 64;
/// The most calls to a server that are pending at a time. If all are about one key, they keep it
/// busy for half a millisecond.
const MAX_PENDING: usize = 256;

pub(super) struct OpenPermits {
    servers: Arc<Servers>,
    permits: HashMap<PermitId, HeldPermit>,
    /// The permits to release, by key.
    releases: BTreeSet<(Arc<[u8]>, PermitId)>,
    /// The calls to each server, by its [number](Servers::number_of).
    calls: HashMap<usize, ServerCalls>,
    /// `true` if due permits wait for room.
    is_held_back: bool,
    /// `true` if the task waits for the first permit.
    pub(super) is_asleep: bool,
    /// `true` if the client is gone: no more permits are acquired.
    pub(super) is_closed: bool,
}

/// The calls to one server.
#[derive(Default)]
struct ServerCalls {
    due: BTreeSet<(Instant, PermitId)>,
    pending: usize,
    /// The time at which the server is asked again, if the last call failed because it does not
    /// serve.
    away_until: Option<Instant>,
}

impl ServerCalls {
    /// The number of due permits that may be taken. Permits that are held back are taken once there
    /// is room for a full call.
    fn room(&self, now: Instant) -> usize {
        let (most, least) = match self.away_until {
            Some(until) if now < until => (0, 1),
            Some(_) => (1, 1),
            None => (MAX_PENDING, MAX_CARRIED),
        };
        let room = most.saturating_sub(self.pending);
        if room < least { 0 } else { room }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due.first().is_some_and(|(due, _)| *due <= now)
    }
}

struct HeldPermit {
    request: PermitRequest,
    /// The time at which the permit is due, and its server; `None` while a call is pending.
    due: Option<(Instant, usize)>,
    /// The number of connections to the server of its key, when last looked at.
    epoch: u64,
    /// `true` until it is known to be acquired: a call that was given up may be carried out after
    /// the release, if the script has to be sent first.
    is_awaited: bool,
    /// The time until which the permit's release is tried, when its lease has ended; `None` to keep
    /// it.
    release_until: Option<Instant>,
}

/// A permit to renew or release by its own call.
pub(super) struct DuePermit {
    pub(super) request: PermitRequest,
    /// `true` to release the permit, `false` to renew it.
    pub(super) is_release: bool,
    /// The server for which the call counts.
    server: usize,
}

/// The permit as the member of a sorted set.
pub(super) fn member(request: &PermitRequest) -> String {
    let PermitId { process, number } = request.id;
    format!("{process:016x}.{number}.{}", request.lease.as_millis())
}

impl OpenPermits {
    pub(super) fn new(servers: Arc<Servers>) -> Self {
        Self {
            servers,
            permits: HashMap::new(),
            releases: BTreeSet::new(),
            calls: HashMap::new(),
            is_held_back: false,
            is_asleep: false,
            is_closed: false,
        }
    }

    /// Adds a permit before its call is sent, so that it is released whatever the reply is.
    pub(super) fn add(&mut self, request: &PermitRequest, now: Instant) {
        let epoch = self.servers.epochs.of(&request.key);
        self.permits.insert(
            request.id,
            HeldPermit {
                request: request.clone(),
                due: None,
                epoch,
                is_awaited: true,
                release_until: None,
            },
        );
        self.set_due(request.id, now + UNTIL_ANSWERED);
    }

    /// The permits of a key to release, as members of its sorted set. Every call on the key of any
    /// client of the store releases them, because their own calls may come later. Releasing twice
    /// does nothing.
    pub(super) fn releases_of(&self, key: &Arc<[u8]>) -> Vec<String> {
        let first = (
            Arc::clone(key),
            PermitId {
                process: 0,
                number: 0,
            },
        );
        let ids = self.releases.range(first..).take_while(|(of, _)| of == key);
        ids.filter_map(|(_, id)| {
            let permit = self.permits.get(id);
            debug_assert!(permit.is_some(), "a permit to release is open until then");
            Some(member(&permit?.request))
        })
        .collect()
    }

    /// Records that the permit of a call sent at `sent_at` was acquired.
    pub(super) fn acquired(&mut self, id: PermitId, sent_at: Instant) {
        let Some(permit) = self
            .permits
            .get_mut(&id)
            .filter(|permit| permit.release_until.is_none())
        else {
            return;
        };
        permit.is_awaited = false;
        // Permits that were acquired together are not renewed together.
        let sixth = permit.request.lease / RENEWALS / 2;
        let part = u32::try_from(id.number % 64).unwrap_or_default();
        self.set_due(id, sent_at + sixth + sixth / 64 * part);
    }

    /// Records that a permit is to be released, after its pending call. `false` if it is not known.
    pub(super) fn release(&mut self, id: PermitId, now: Instant) -> bool {
        let Some(permit) = self.permits.get_mut(&id) else {
            return false;
        };
        if permit.release_until.is_none() {
            permit.release_until = Some(now + permit.request.lease);
            self.releases.insert((Arc::clone(&permit.request.key), id));
            if permit.due.is_some() {
                self.set_due(id, now);
            }
        }
        true
    }

    /// Takes the due permits, for a call each: as many of each server as it has room for.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<DuePermit> {
        let mut taken = Vec::new();
        self.is_held_back = false;
        // Masters come and go.
        self.calls
            .retain(|_, calls| calls.pending > 0 || !calls.due.is_empty());
        for (server, calls) in &mut self.calls {
            for _ in 0..calls.room(now) {
                if !calls.is_due(now) {
                    break;
                }
                let Some(permit) = calls
                    .due
                    .pop_first()
                    .and_then(|(_, id)| self.permits.get_mut(&id))
                else {
                    debug_assert!(false, "a permit that is due is open");
                    continue;
                };
                permit.due = None;
                calls.pending += 1;
                taken.push(DuePermit {
                    request: permit.request.clone(),
                    is_release: permit.release_until.is_some(),
                    server: *server,
                });
            }
            self.is_held_back |= calls.is_due(now) && calls.away_until.is_none();
        }
        taken
    }

    /// `true` if a due permit should not wait for others to share its call: it is to be released,
    /// or was held back for lack of room.
    pub(super) fn is_urgent(&self, now: Instant) -> bool {
        let is_due = |calls: &ServerCalls| {
            calls.away_until.is_none() && calls.room(now) > 0 && calls.is_due(now)
        };
        (self.has_releases() || self.is_held_back) && self.calls.values().any(is_due)
    }

    /// Records the end of a call that was taken, and sent at `sent_at`. `done` is the reply:
    /// whether the permit was released or renewed; `None` if none arrived. `true` if a call in
    /// flight has lost its permit.
    pub(super) fn note(
        &mut self,
        call: &DuePermit,
        done: Option<bool>,
        sent_at: Instant,
        now: Instant,
    ) -> bool {
        let PermitRequest { id, lease, .. } = call.request;
        if let Some(calls) = self.calls.get_mut(&call.server) {
            debug_assert!(calls.pending > 0, "a call that was taken is pending");
            calls.pending = calls.pending.saturating_sub(1);
            let is_away = done.is_none() && self.servers.health(&call.request.key) != Health::Up;
            calls.away_until = is_away.then(|| now + RETRY);
        } else {
            debug_assert!(
                false,
                "the calls of a server are known while one is pending"
            );
        }
        let Some(permit) = self.permits.get_mut(&id) else {
            return false;
        };
        let release_until = permit.release_until;
        match (done, release_until) {
            (Some(true), None) => self.set_due(id, sent_at + lease / RENEWALS),
            (None, None) => self.set_due(id, now + RETRY),
            // It was renewed, and is released now.
            (Some(true), Some(_)) if !call.is_release => self.set_due(id, now),
            (None, Some(until)) if now <= until => {
                self.set_due(id, if call.is_release { now + RETRY } else { now });
            }
            // It was not held, and may be by now. No caller waits for that release.
            (Some(false), Some(_)) if std::mem::take(&mut permit.is_awaited) => {
                self.releases.remove(&(Arc::clone(&call.request.key), id));
                self.set_due(id, now + RETRY);
            }
            // It is released or was not held, or its lease is over.
            _ => self.forget(id),
        }
        done == Some(false) && release_until.is_none()
    }

    /// Makes the leases on servers with a new connection, which may have lost them, due for renewal
    /// now.
    pub(super) fn renew_lost(&mut self, now: Instant) {
        let mut lost = Vec::new();
        // To renew one that is awaited would acquire it, before its own call finds it held.
        let held = self
            .permits
            .iter_mut()
            .filter(|(_, permit)| !permit.is_awaited);
        for (id, permit) in held {
            let epoch = self.servers.epochs.of(&permit.request.key);
            if std::mem::replace(&mut permit.epoch, epoch) != epoch && permit.due.is_some() {
                lost.push(*id);
            }
        }
        for id in lost {
            self.set_due(id, now);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.permits.is_empty()
    }

    pub(super) fn has_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    /// Makes a permit due at `at`. None of its calls may be pending any more.
    fn set_due(&mut self, id: PermitId, at: Instant) {
        let Some(permit) = self.permits.get_mut(&id) else {
            debug_assert!(false, "only an open permit becomes due");
            return;
        };
        let server = self.servers.number_of(&permit.request.key);
        let before = permit.due.replace((at, server));
        self.not_due(id, before);
        self.calls.entry(server).or_default().due.insert((at, id));
    }

    fn not_due(&mut self, id: PermitId, due: Option<(Instant, usize)>) {
        if let Some((at, server)) = due
            && let Some(calls) = self.calls.get_mut(&server)
        {
            calls.due.remove(&(at, id));
        }
    }

    /// Drops a permit that the server does not keep.
    pub(super) fn forget(&mut self, id: PermitId) {
        let Some(permit) = self.permits.remove(&id) else {
            return;
        };
        self.not_due(id, permit.due);
        self.releases.remove(&(permit.request.key, id));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use tokio::runtime::Handle;

    use super::*;
    use crate::store::redis::settings::url;

    /// Renewed, it would be acquired, and its own call would find it held by another.
    #[tokio::test]
    async fn a_permit_whose_call_has_no_answer_yet_is_not_renewed() {
        let settings = url::settings("redis://localhost").unwrap();
        let servers = Arc::new(Servers::start(&settings, &Handle::current()));
        let (mut open, now) = (OpenPermits::new(Arc::clone(&servers)), Instant::now());
        let [awaited, held] = [(); 2].map(|()| PermitRequest::new(b"key", 1));
        for permit in [&awaited, &held] {
            open.add(permit, now);
        }
        open.acquired(held.id, now);
        servers.epochs.begin();
        open.renew_lost(now);
        let due: Vec<_> = open
            .take_due(now)
            .iter()
            .map(|call| call.request.id)
            .collect();
        assert_eq!(due, [held.id]);
        let lapsed = now + awaited.lease;
        assert!(open.take_due(lapsed).is_empty(), "its future is not polled");
        assert!(open.release(awaited.id, lapsed));
        assert_eq!(open.take_due(lapsed).len(), 1);
    }
}

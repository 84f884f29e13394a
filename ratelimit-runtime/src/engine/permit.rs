//! [`PermitCheck`]: the permit that a call asks for. [`OpenPermit`]: the permit that it gets.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Instant;

use super::bound::BoundRule;
use super::state::{Engine, QueueKey};
use crate::decision::{Decision, Measure, NEVER_US, Source, Status};
use crate::observe;
use crate::store::{BuiltInStore as _, PermitId, PermitRequest};

/// The permit that a call asks for.
pub(crate) struct PermitCheck {
    pub(super) bound: Arc<BoundRule>,
    pub(super) key: Arc<[u8]>,
    /// The most calls that may be in flight.
    pub(super) max: u64,
}

impl PermitCheck {
    /// The request of this permit, for a caller that waits until `timeout_at`.
    pub(super) fn request(&self, id: PermitId, timeout_at: Option<Instant>) -> PermitRequest {
        PermitRequest {
            key: Arc::clone(&self.key),
            rule: self.bound.name.as_str(),
            max: self.max,
            lease: self.bound.terms.lease(),
            id,
            timeout_at,
        }
    }

    /// The admission of a call with which `in_flight` calls are in flight.
    pub(super) fn admitted(&self, in_flight: u64, source: Source) -> Decision {
        let remaining = if source == Source::Nobody {
            0
        } else {
            self.max.saturating_sub(in_flight)
        };
        Decision {
            remaining,
            ..self.by(source)
        }
    }

    /// The refusal if all permits are taken. It is not known when it ends.
    pub(super) fn refused(&self, source: Source) -> Decision {
        Decision {
            status: Status::Exceeded,
            retry_after_us: NEVER_US,
            ..self.by(source)
        }
    }

    /// The decision on a further call while `in_flight` calls are in flight.
    pub(super) fn decision(&self, in_flight: u64, source: Source) -> Decision {
        if in_flight < self.max {
            self.admitted(in_flight, source)
        } else {
            self.refused(source)
        }
    }

    fn by(&self, source: Source) -> Decision {
        let limits = self.bound.terms.limits().len();
        Decision {
            limit_index: u8::try_from(limits).unwrap_or(u8::MAX),
            source,
            ..Decision::unchecked(self.bound.name, self.max, 0, Measure::InFlight)
        }
    }
}

/// The permits of one call, which are released when this is dropped.
#[derive(Default)]
#[must_use = "dropping them ends the call"]
pub struct CallPermits {
    pub(super) _open: Box<[OpenPermit]>,
}

/// A panic leaves permits to be dropped, and the state they share is behind locks.
impl UnwindSafe for CallPermits {}
impl RefUnwindSafe for CallPermits {}

impl fmt::Debug for CallPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallPermits(..)")
    }
}

/// A permit, from before the store is asked for it. Dropping it, on any thread, releases it by its
/// id, whatever the answer was: a call that is dropped, late or not answered may hold it.
pub(super) struct OpenPermit {
    engine: Arc<Engine>,
    check: Arc<PermitCheck>,
    /// `None` if the store does not know the permit.
    id: Option<PermitId>,
    /// `true` if its call is in flight, and this process counts it.
    is_counted: bool,
    /// The number of permits that were free when this one was acquired.
    pub(super) left: u64,
    /// The source that has decided.
    pub(super) source: Source,
}

impl OpenPermit {
    /// A permit to acquire from the store; without an `id`, one that only this process counts.
    pub(super) fn new(
        engine: &Arc<Engine>,
        check: &Arc<PermitCheck>,
        id: Option<PermitId>,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            check: Arc::clone(check),
            id,
            is_counted: false,
            left: 0,
            source: Source::Store,
        }
    }

    /// Counts the permit, and returns the number of calls in flight on its key with this one;
    /// `None` if this process has `max` already.
    pub(super) fn count_below(&mut self, max: u64) -> Option<u64> {
        let in_flight = self.engine.permits.add_below(&self.check.key, max)?;
        observe::in_flight(self.check.bound.name, true);
        self.is_counted = true;
        Some(in_flight)
    }

    /// The request to acquire the permit, for a caller that waits until `timeout_at`, or to release
    /// it.
    pub(super) fn request(&self, timeout_at: Option<Instant>) -> Option<PermitRequest> {
        Some(self.check.request(self.id?, timeout_at))
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        if self.is_counted {
            observe::in_flight(self.check.bound.name, false);
            self.engine.permits.remove(&self.check.key);
        }
        if let Some(request) = self.request(None) {
            self.engine.store.release_permit(&request);
        }
        // Once it is released: the caller that wakes asks at once. Permits of a memory that only
        // this limiter has are wanted by no other process.
        if self.is_counted {
            let wake = |policies| {
                let key = &self.check.key;
                let queue = QueueKey { key, policies };
                self.engine.turns.wake(queue, !self.engine.in_memory);
            };
            let (own, current) = (
                self.check.bound.origin.policies,
                self.engine.registry.version(),
            );
            wake(own);
            // A rule without a policy has one queue.
            if own != 0 && own != current {
                wake(current);
            }
        }
    }
}

//! [`PermitCheck`]: the permit that a call asks for; [`OpenPermit`]: the permit that it gets.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::Engine;
use crate::decision::{Decision, Measure, NEVER_US, Source, Status};
use crate::observe;
use crate::rule::Name;
use crate::store::{BuiltInStore as _, PermitId, PlaceRequest};

/// A permit among the calls in flight of a key.
pub(crate) struct PermitCheck {
    pub(super) name: Name,
    pub(super) key: Arc<[u8]>,
    /// How many calls may be in flight.
    pub(super) max: u64,
    pub(super) lease: Duration,
    /// The index of this limit among those of its rule: the last.
    pub(super) index: u8,
}

impl PermitCheck {
    /// The request of this permit, for a caller who waits until then.
    pub(super) fn request(&self, permit: PermitId, timeout_at: Option<Instant>) -> PlaceRequest {
        let Self {
            name, max, lease, ..
        } = *self;
        PlaceRequest {
            key: Arc::clone(&self.key),
            rule: name.as_str(),
            max,
            lease,
            permit,
            timeout_at,
        }
    }

    /// The decision where so many calls are in flight, this one included.
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

    /// The refusal where all permits are taken. No time is known that ends it.
    pub(super) fn refused(&self, source: Source) -> Decision {
        Decision {
            status: Status::Exceeded,
            retry_after_us: NEVER_US,
            ..self.by(source)
        }
    }

    /// The decision on one more call where so many are in flight.
    pub(super) fn decision(&self, in_flight: u64, source: Source) -> Decision {
        if in_flight < self.max {
            self.admitted(in_flight, source)
        } else {
            self.refused(source)
        }
    }

    fn by(&self, source: Source) -> Decision {
        let decision = Decision::unchecked(self.name, self.max, 0, Measure::InFlight);
        Decision {
            limit_index: self.index,
            source,
            ..decision
        }
    }
}

/// The permits of one call, which are released when they are dropped.
#[derive(Default)]
#[must_use = "dropping them ends the call"]
pub struct CallPermits {
    pub(super) _open: Box<[OpenPermit]>,
}

/// A panic leaves them to be dropped, and state that they share is behind locks.
impl UnwindSafe for CallPermits {}
impl RefUnwindSafe for CallPermits {}

impl fmt::Debug for CallPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallPermits(..)")
    }
}

/// A permit, from before it is asked for. When it is dropped, on whichever thread, it is released
/// by its id, whatever has become of the answer: a call that is dropped, late or without an answer
/// may have it.
pub(super) struct OpenPermit {
    engine: Arc<Engine>,
    check: Arc<PermitCheck>,
    /// `None` where the store knows nothing of it.
    id: Option<PermitId>,
    /// Whether its call is in flight, and counted by this process.
    is_counted: bool,
}

impl OpenPermit {
    /// A permit that is about to be asked for, or of this process alone.
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
        }
    }

    /// Counts it as that of a call that begins, unless this process has `max` of its key. Says how
    /// many there are with it.
    pub(super) fn count_below(&mut self, max: u64) -> Option<u64> {
        let in_flight = self.engine.permits.add_below(&self.check.key, max)?;
        observe::in_flight(self.check.name, true);
        self.is_counted = true;
        Some(in_flight)
    }

    /// The request to acquire it, of a caller that waits until then, or to release it.
    pub(super) fn request(&self, timeout_at: Option<Instant>) -> Option<PlaceRequest> {
        Some(self.check.request(self.id?, timeout_at))
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        if self.is_counted {
            observe::in_flight(self.check.name, false);
            self.engine.permits.remove(&self.check.key);
        }
        if let Some(request) = self.request(None) {
            self.engine.store.leave(&request);
        }
        // Once it is released: the caller that wakes asks at once. Permits of a memory that only
        // this limiter has are wanted by no other process.
        if self.is_counted {
            self.engine
                .turns
                .wake(&self.check.key, !self.engine.in_memory);
        }
    }
}

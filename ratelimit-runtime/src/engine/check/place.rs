//! [`PlaceCheck`]: what a call asks for where calls in flight are limited.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::decision::{Decision, Measure, NEVER_US, Source, Status};
use crate::rule::Name;
use crate::store::{PermitId, PlaceRequest};

/// A place among the calls in flight of a key.
#[derive(Clone)]
pub(crate) struct PlaceCheck {
    pub(in crate::engine) name: Name,
    pub(in crate::engine) key: Arc<[u8]>,
    /// How many there are.
    pub(in crate::engine) max: u64,
    pub(in crate::engine) lease: Duration,
    /// Which of the limits of its rule it is.
    pub(in crate::engine) index: u8,
}

impl PlaceCheck {
    /// The same in a rule that has so many other limits.
    pub(in crate::engine) fn after_limits(self, limits: usize) -> Self {
        Self { index: u8::try_from(limits).unwrap_or(u8::MAX), ..self }
    }

    pub(in crate::engine) fn name(&self) -> Name {
        self.name
    }

    pub(in crate::engine) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(in crate::engine) fn max(&self) -> u64 {
        self.max
    }

    /// The request of this permit, for a caller who waits until then.
    pub(in crate::engine) fn request(&self, permit: PermitId, timeout_at: Option<Instant>) -> PlaceRequest {
        let Self { name, max, lease, .. } = *self;
        PlaceRequest { key: Arc::clone(&self.key), rule: name.as_str(), max, lease, permit, timeout_at }
    }

    /// The decision of a call that has entered as one of so many in flight.
    pub(in crate::engine) fn entered(&self, in_flight: u64, source: Source) -> Decision {
        let remaining = if source == Source::Nobody { 0 } else { self.max.saturating_sub(in_flight) };
        Decision { remaining, ..self.decision(Status::Allowed, source) }
    }

    /// The refusal of a call for which there is no place. No time is known that ends it.
    pub(in crate::engine) fn refused(&self, source: Source) -> Decision {
        Decision { retry_after_us: NEVER_US, ..self.decision(Status::Exceeded, source) }
    }

    fn decision(&self, status: Status, source: Source) -> Decision {
        let undecided = Decision::unchecked(self.name, self.max, 0, Measure::InFlight);
        Decision { limit_index: self.index, source, status, ..undecided }
    }
}

impl fmt::Debug for PlaceCheck {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceCheck").field("rule", &self.name).field("max", &self.max).finish_non_exhaustive()
    }
}

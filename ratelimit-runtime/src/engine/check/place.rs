//! [`PlaceCheck`]: what a call asks for where calls in flight are limited.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::decision::{Decision, Measure, NEVER_US, Source, Status};
use crate::rule::Name;
use crate::store::{PermitId, PlaceRequest};

/// A place among the calls in flight of a key.
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
    /// The request of this permit, for a caller who waits until then.
    pub(in crate::engine) fn request(&self, permit: PermitId, timeout_at: Option<Instant>) -> PlaceRequest {
        let Self { name, max, lease, .. } = *self;
        PlaceRequest { key: Arc::clone(&self.key), rule: name.as_str(), max, lease, permit, timeout_at }
    }

    /// The decision of a call that has entered as one of so many in flight.
    pub(in crate::engine) fn entered(&self, in_flight: u64, source: Source) -> Decision {
        let remaining = if source == Source::Nobody { 0 } else { self.max.saturating_sub(in_flight) };
        Decision { remaining, ..self.decision(source) }
    }

    /// The refusal of a call for which there is no place. No time is known that ends it.
    pub(in crate::engine) fn refused(&self, source: Source) -> Decision {
        Decision { status: Status::Exceeded, retry_after_us: NEVER_US, ..self.decision(source) }
    }

    fn decision(&self, source: Source) -> Decision {
        let decision = Decision::unchecked(self.name, self.max, 0, Measure::InFlight);
        Decision { limit_index: self.index, source, ..decision }
    }
}

impl fmt::Debug for PlaceCheck {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceCheck").field("rule", &self.name).field("max", &self.max).finish_non_exhaustive()
    }
}

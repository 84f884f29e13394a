//! [`PlaceCheck`]: what a call asks for where calls in flight are limited.

use std::time::Duration;

use crate::decision::{Decision, Measure, NEVER_US, Source, Status};
use crate::key::KeyBuf;
use crate::rule::Name;
use crate::store::{PermitId, PlaceRequest};

/// A place among the calls in flight of a key.
pub(crate) struct PlaceCheck {
    pub(in crate::engine) name: Name,
    pub(in crate::engine) key: KeyBuf,
    /// The length of the part of the key that all keys of the rule share.
    pub(in crate::engine) rule_len: usize,
    /// How many there are.
    pub(in crate::engine) max: u64,
    pub(in crate::engine) lease: Duration,
    /// Which of the limits of its rule it is.
    pub(in crate::engine) index: u8,
}

impl PlaceCheck {
    pub(in crate::engine) fn request(&self, permit: PermitId) -> PlaceRequest<'_> {
        PlaceRequest::new(&self.key, self.max, permit).with_lease(self.lease).of_rule(self.name, self.rule_len)
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

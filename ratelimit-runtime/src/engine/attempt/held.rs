//! [`Held`]: what an attempt has so far; [`Admission`]: what its caller gets.

use std::time::Instant;

use smallvec::SmallVec;

use crate::decision::Decision;
use crate::engine::ask::Time;
use crate::engine::charge::{Charge, Completion};
use crate::engine::part::Part;
use crate::engine::permit::OpenPermit;
use crate::error::RateLimitError;
use crate::store::Reserves;

/// The indices of some parts of a stack.
pub(super) type Indices = SmallVec<[usize; 4]>;

/// The decisions, reservations and permits so far. Dropping it releases the permits; reservations
/// count, as those of a call that is cancelled.
pub(super) struct Held<'a> {
    pub(super) stack: &'a [Part],
    pub(super) start: Instant,
    admission: Admission,
    pub(super) permits: Vec<OpenPermit>,
}

/// The outcome of a stack that is let through.
pub(in crate::engine) struct Admission {
    /// Of each part, in their order. Parts with an error are in shadow mode.
    pub(in crate::engine) decisions: SmallVec<[Result<Decision, RateLimitError>; 1]>,
    /// Of each part whose outcome decides what it costs.
    pub(in crate::engine) reservations: SmallVec<[Option<Charge>; 1]>,
    pub(in crate::engine) permits: Vec<OpenPermit>,
}

impl<'a> Held<'a> {
    pub(super) fn new(stack: &'a [Part], start: Instant) -> Self {
        let unasked = || Err(RateLimitError::misconfigured("a check was not asked"));
        Self {
            stack,
            start,
            admission: Admission {
                decisions: stack.iter().map(|_| unasked()).collect(),
                reservations: stack.iter().map(|_| None).collect(),
                permits: Vec::new(),
            },
            permits: Vec::new(),
        }
    }

    /// These parts of the stack, with their indices.
    pub(super) fn parts<'s>(
        &self,
        parts: &'s [usize],
    ) -> impl Iterator<Item = (usize, &'a Part)> + Clone + use<'a, 's> {
        let stack = self.stack;
        debug_assert!(
            parts.iter().all(|at| *at < stack.len()),
            "parts are those of the stack"
        );
        parts.iter().filter_map(|at| Some((*at, stack.get(*at)?)))
    }

    /// The time of an attempt at these, which is that of the most impatient; `None` for no parts.
    pub(super) fn time(&self, parts: &[usize]) -> Option<Time> {
        let times = self.parts(parts).map(|(_, part)| part.time(self.start));
        times.min_by_key(|time| time.end)
    }

    pub(super) fn note(&mut self, at: usize, decided: Result<Decision, RateLimitError>) {
        let noted = self.admission.decisions.get_mut(at);
        debug_assert!(noted.is_some(), "a part of the stack is noted");
        if let Some(noted) = noted {
            *noted = decided;
        }
    }

    /// Notes a part that is admitted, and keeps its reservation if the outcome of the call decides
    /// what it costs.
    pub(super) fn admit(&mut self, at: usize, decision: Decision, reservation: Option<Charge>) {
        if let (Some(mut reservation), Some(kept)) =
            (reservation, self.admission.reservations.get_mut(at))
        {
            reservation.otherwise = Completion::Commit;
            *kept = Some(reservation);
        }
        self.note(at, Ok(decision));
    }

    /// Notes a part that was decided as it is: its charge stays, or is a reservation of its own.
    pub(super) fn admit_decided(&mut self, at: usize, part: &Part, decision: Decision) {
        let reserves = part.check().request.reserves;
        let charge = (reserves != Reserves::Nothing)
            .then(|| Charge::new(part, reserves, decision.charge(), self.start, None));
        self.admit(at, decision, charge);
    }

    pub(super) fn admitted(self) -> Admission {
        Admission {
            permits: self.permits,
            ..self.admission
        }
    }
}

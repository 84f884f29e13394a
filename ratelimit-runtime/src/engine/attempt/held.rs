//! [`Held`]: the admissions that an attempt has so far, which go back whichever way it ends early.
//! [`Admission`]: the outcome of one part.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::decision::{Decision, Source};
use crate::engine::charge::Charge;
use crate::engine::outage::{Refused, admitted_or_longest};
use crate::engine::part::{At, Part};
use crate::engine::permit::OpenPermit;
use crate::engine::timeout::Boxed;
use crate::error::{RateLimitError, StoreError};
use crate::observe;

/// Some parts of a stack.
pub(super) type StepParts<'a> = SmallVec<[At<'a>; 4]>;

/// A part whose store gave an error, with its index in the stack.
pub(super) type Failed<'a> = (usize, &'a Part, StoreError);

/// The admissions of a stack's parts, in order.
pub(in crate::engine) type Admissions = SmallVec<[Admission; 1]>;

/// The outcome of one part. Dropping it releases the permit and ends the charge.
pub(in crate::engine) struct Admission {
    /// The decision; an error only in shadow mode.
    pub(in crate::engine) decided: Result<Decision, RateLimitError>,
    /// The charge; in the end only if the outcome of the call decides its cost.
    pub(in crate::engine) charge: Option<Charge>,
    pub(in crate::engine) permit: Option<OpenPermit>,
}

impl Admission {
    pub(super) fn of(decided: Result<Decision, RateLimitError>) -> Self {
        Self {
            decided,
            charge: None,
            permit: None,
        }
    }
}

/// The admissions that an attempt has so far. Dropping it gives back all that are not confirmed.
pub(super) struct Held<'a> {
    stack: &'a [Part],
    /// `true` if parts of the stack charge one key.
    pub(super) shares_keys: bool,
    pub(super) start: Instant,
    pub(super) admissions: Admissions,
    /// The parts that were admitted, in order, if parts share keys.
    charged: Vec<usize>,
    /// Charges that were not answered in time: each future waits for its answer, and gives it back.
    pub(super) late: Vec<Boxed<'a, ()>>,
}

impl<'a> Held<'a> {
    pub(super) fn new(stack: &'a [Part]) -> Self {
        let unasked = || Err(RateLimitError::misconfigured("a check was not asked"));
        let mut keys: SmallVec<[_; 4]> = stack.iter().filter_map(Part::charged_key).collect();
        keys.sort_unstable();
        let shares_keys = keys
            .windows(2)
            .any(|pair| matches!(pair, [one, other] if one == other));
        Self {
            stack,
            shares_keys,
            start: Instant::now(),
            admissions: stack.iter().map(|_| Admission::of(unasked())).collect(),
            charged: Vec::new(),
            late: Vec::new(),
        }
    }

    fn of(&mut self, at: usize) -> Option<&mut Admission> {
        debug_assert!(at < self.admissions.len(), "a part of the stack");
        self.admissions.get_mut(at)
    }

    /// Records that the limits of a part admit, and its charge, if that may have to be ended. Call
    /// this in the order of the charges.
    pub(super) fn admit(&mut self, at: usize, decision: Decision, charge: Option<Charge>) {
        if self.shares_keys {
            self.charged.push(at);
        }
        if let Some(admission) = self.of(at) {
            (admission.decided, admission.charge) = (Ok(decision), charge);
        }
    }

    /// Records the decisions of one step on these parts, if all of them admit. After the `last`
    /// step, a part that reserves nothing keeps its charge.
    pub(super) fn admit_all<'p>(
        &mut self,
        decided: impl Iterator<Item = (At<'p>, Decision)> + Clone,
        last: bool,
    ) -> Result<(), Refused> {
        admitted_or_longest(decided.clone().map(|((at, _), decision)| (at, decision)))?;
        for ((at, part), decision) in decided {
            let charge = || Charge::new(part, part.reserves, &decision, self.start, None);
            let charge = (!last || part.reserves()).then(charge);
            self.admit(at, decision, charge);
        }
        Ok(())
    }

    /// Subtracts the costs of later charges on a key from what remains for earlier parts.
    pub(super) fn share(&mut self) {
        let mut later = BTreeMap::new();
        while let Some(at) = self.charged.pop() {
            if let (Some(part), Some(admission)) = (self.stack.get(at), self.admissions.get_mut(at))
                && let (Some(key), Ok(decision)) = (part.charged_key(), &mut admission.decided)
            {
                let cost: &mut u64 = later.entry(key).or_default();
                decision.remaining = decision.remaining.saturating_sub(*cost);
                *cost += part.cost();
            }
        }
    }

    /// Keeps the counted permit of a part. If the part has limits, their decision is recorded, and
    /// of the `decision` on the permit only its source, once [confirmed](Self::confirm).
    pub(super) fn hold(&mut self, (at, part): At<'_>, mut permit: OpenPermit, decision: Decision) {
        (permit.left, permit.source) = (decision.remaining, decision.source);
        if let Some(admission) = self.of(at) {
            admission.permit = Some(permit);
            if !part.is_limited() {
                admission.decided = Ok(decision);
            }
        }
    }

    /// Ends a step that admits these `parts`: a charge stays, or is a reservation that its call
    /// ends.
    pub(super) fn confirm(&mut self, parts: &[At<'_>]) {
        for &(at, part) in parts {
            if let Some(admission) = self.of(at) {
                let charge = admission.charge.take();
                admission.charge = charge.and_then(|charge| charge.admitted(part.reserves()));
                if let (Ok(decision), Some(permit)) = (&mut admission.decided, &admission.permit) {
                    *decision = decision.permitted_by(permit.source);
                }
            }
        }
    }

    /// Decides parts whose store gave no answer by their policies. The parts that one fallback
    /// decides are charged together: all or none.
    ///
    /// # Errors
    ///
    /// The longest refusal known to hold for a part, or the error of a part that gets no other
    /// answer.
    #[cold]
    pub(super) fn decide_failed(&mut self, failed: Vec<Failed<'_>>) -> Result<(), Refused> {
        admitted_or_longest(failed.iter().filter_map(|(at, part, error)| {
            let refusal = part.engine.known_refusal(&part.check(), error)?;
            Some((*at, refusal))
        }))?;
        let mut by_fallback = BTreeMap::<u64, StepParts<'_>>::new();
        for (at, part, error) in failed {
            let check = part.check();
            let source = part.engine.outage_source(&check, &error);
            observe::no_answer(part.bound.name, source, &error);
            match source {
                Some(Source::Fallback) => {
                    let together = by_fallback.entry(part.engine.id).or_default();
                    together.push((at, part));
                }
                Some(_) => self.admit(at, check.unchecked(), None),
                None => return Err(Refused::by(at)(error)),
            }
        }
        for parts in by_fallback.into_values() {
            let Some((_, Part { engine, .. })) = parts.first() else {
                continue;
            };
            let requests = parts.iter().map(|(_, part)| part.check().request);
            let requests: Vec<_> = requests.collect();
            let verdicts = engine.fallback.acquire_all(&requests);
            let decided = parts.iter().zip(&verdicts);
            let decided =
                decided.map(|(&at, verdict)| (at, at.1.check().fallback_decision(verdict)));
            self.admit_all(decided, false)?;
        }
        Ok(())
    }

    /// Decides the permit of a part whose store gave no answer: the count of this process goes on.
    /// If the limits of the part got the same error, they log it.
    pub(super) fn permit_in_outage(
        &mut self,
        (at, part): At<'_>,
        error: &StoreError,
        with_limits: bool,
    ) -> Result<(), Refused> {
        let (engine, Some(permit)) = (&part.engine, &part.permit) else {
            return Ok(());
        };
        let source = engine.outage_source(&part.check(), error);
        if !with_limits {
            observe::no_answer(part.bound.name, source, error);
        }
        let source = source.ok_or_else(|| Refused::by(at)(error.clone()))?;
        let max = if source == Source::Fallback {
            permit.max
        } else {
            u64::MAX
        };
        let mut open = OpenPermit::new(engine, permit, None);
        let Some(in_flight) = open.count_below(max) else {
            return Err(Refused::new(at, permit.refused(source)));
        };
        self.hold((at, part), open, permit.admitted(in_flight, source));
        Ok(())
    }
}

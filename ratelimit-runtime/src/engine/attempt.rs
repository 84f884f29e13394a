//! One attempt of a group of checks: it asks once, and charges all of them and takes their places, or
//! none.
//!
//! It is made in steps, each of which one store decides at once. Charges and places of earlier
//! steps are given back when a later one refuses or fails, and when the caller drops the attempt.
//! All steps share the time of the check.
//!
//! This process counts its own open permits by key: once they hold all places of a key, a call is
//! refused without asking, and the count goes on where the store gives no answer.

use std::mem::take;
use std::sync::Arc;
use std::time::Instant;

use super::call::OwnedCall;
use super::check::Check;
use super::outage::{Refused, admitted_or_longest};
use super::permit::{CallPermits, OpenPermit, PlaceCheck};
use super::reservations;
use super::state::Engine;
use crate::decision::{Decision, Receipt, Source};
use crate::error::{RateLimitError, StoreError};
use crate::store::{Entry, Feature, PermitId, Request};

/// The outcome of a group that is let through: of each check, in their order, with the permits of
/// those that take places. Checks with an error are in shadow mode.
pub(super) type Attempted = Result<(Vec<Result<Decision, RateLimitError>>, CallPermits), Refused>;

/// A check, with its index in the group.
type Member<'a> = (usize, &'a OwnedCall);

/// A check that takes a place.
type Placed<'a> = (Member<'a>, &'a Arc<PlaceCheck>);

/// Asks once. A check in shadow mode has no say; it is asked once the others have admitted the call.
pub(super) async fn acquire(group: &[OwnedCall]) -> Attempted {
    let mut attempt = Attempt {
        start: Instant::now(),
        decisions: vec![None; group.len()],
        permits: Vec::new(),
        charged: Vec::new(),
    };
    let (shadows, others): (Vec<Member<'_>>, Vec<_>) = group
        .iter()
        .enumerate()
        .partition(|(_, call)| call.asked.shadow);
    attempt.all(&others).await?;
    for shadow in shadows {
        // The refusal is noted, and refuses nothing.
        if let Err(refused) = attempt.all(&[shadow]).await {
            attempt.note(shadow, Err(refused.error));
        }
    }
    attempt.charged.clear();
    let nothing = || Err(RateLimitError::misconfigured("nothing was asked"));
    let decisions = take(&mut attempt.decisions)
        .into_iter()
        .map(|decision| decision.unwrap_or_else(nothing));
    Ok((
        decisions.collect(),
        CallPermits::new(take(&mut attempt.permits)),
    ))
}

/// The decisions so far. Dropping it leaves all places, and gives back all charges.
struct Attempt<'a> {
    start: Instant,
    decisions: Vec<Option<Result<Decision, RateLimitError>>>,
    permits: Vec<OpenPermit>,
    charged: Vec<(&'a OwnedCall, Receipt)>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.give_back(0, 0);
    }
}

impl<'a> Attempt<'a> {
    /// Gives back all but so many permits and charges.
    fn give_back(&mut self, permits: usize, charges: usize) {
        self.permits.truncate(permits);
        for (call, charge) in self.charged.drain(charges..) {
            reservations::give_back(call, charge);
        }
    }

    fn note(&mut self, (at, call): Member<'a>, decision: Result<Decision, RateLimitError>) {
        if let Ok(decision) = &decision {
            self.charged.push((call, decision.charge()));
        }
        if let Some(noted) = self.decisions.get_mut(at) {
            *noted = Some(decision);
        }
    }

    /// Charges the limits of these and takes their places, or neither.
    async fn all(&mut self, members: &[Member<'a>]) -> Result<(), Refused> {
        for &(by, call) in members {
            call.sound().map_err(|error| Refused { by, error })?;
        }
        let (permits, charges) = (self.permits.len(), self.charged.len());
        let steps = steps(members);
        if steps.iter().filter(|step| !step.limits.is_empty()).count() > 1 {
            // What one step has charged is given back where another refuses.
            for &(by, call) in steps
                .iter()
                .flat_map(|step| &step.limits)
                .filter(|(_, call)| !call.reserves())
            {
                call.require(Feature::Refund)
                    .map_err(|error| Refused { by, error })?;
            }
        }
        let mut steps = steps.into_iter();
        while let Some(step) = steps.next() {
            let Err(mut refused) = self.step(&step).await else {
                continue;
            };
            self.give_back(permits, charges);
            if let RateLimitError::Exceeded(longest) = &mut refused.error
                && !longest.is_in_flight_limit()
            {
                // The refusal that takes longest to end speaks for all.
                for &(at, call) in steps.as_slice().iter().flat_map(|step| &step.limits) {
                    if let Ok(other) = call.peek_since(self.start).await
                        && (other.retry_after_us, refused.by) > (longest.retry_after_us, at)
                    {
                        (*longest, refused.by) = (other, at);
                    }
                }
            }
            return Err(refused);
        }
        Ok(())
    }

    /// Takes one step: its place and its limits, or neither.
    async fn step(&mut self, step: &Step<'a>) -> Result<(), Refused> {
        let Step {
            engine,
            place,
            limits,
        } = step;
        if let Some(((by, _), place)) = place
            && engine.permits.count(&place.key) >= place.max
        {
            return Err(Refused::new(*by, place.refused(Source::Store)));
        }
        let members = limits.iter().chain(place.iter().map(|(member, _)| member));
        let Some(until) = members.map(|(_, call)| call.timeout_at(self.start)).min() else {
            return Ok(());
        };
        let mut checks = Vec::with_capacity(limits.len());
        for &(by, call) in limits {
            let check = call.check();
            if let Some(blocked) = engine.fallback.blocked(&check) {
                return Err(Refused::new(by, check.fallback_decision(&blocked)));
            }
            checks.push(Check {
                request: check.request.with_timeout_at(until),
                ..check
            });
        }
        // Of several refusals the longest is told, which the store alone knows.
        if let (Some(_), &[(by, _)], [check]) = (place, &**limits, &*checks)
            && let Some(refusal) = engine.store.own().known_refusal(&check.request)
        {
            return Err(Refused::new(by, check.decision(&refusal)));
        }
        let permit = place.map(|(_, place)| OpenPermit::new(engine, place, Some(PermitId::next())));
        let entry = match step
            .ask(permit.as_ref(), &checks, (self.start, until))
            .await
        {
            Ok(entry) => entry,
            Err(error) => {
                drop(permit);
                return self.step_without_store(step, &checks, error);
            }
        };
        if let (Some(permit), Some((member, place)), true) = (permit, place, entry.is_entered()) {
            let _ = engine.permits.add_below(&place.key, u64::MAX);
            self.permits.push(permit.counted());
            self.note(*member, Ok(place.entered(entry.in_flight, Source::Store)));
        }
        let decided: Vec<Decision> = checks
            .iter()
            .zip(&entry.verdicts)
            .map(|(check, verdict)| check.decision(verdict))
            .collect();
        self.admit(limits, decided)?;
        match place {
            Some(((by, _), place)) if !entry.is_entered() => {
                Err(Refused::new(*by, place.refused(Source::Store)))
            }
            _ => Ok(()),
        }
    }

    /// Takes a step whose store gave no answer: this process goes on counting its own calls.
    fn step_without_store(
        &mut self,
        step: &Step<'a>,
        checks: &[Check<'_>],
        error: StoreError,
    ) -> Result<(), Refused> {
        let Step {
            engine,
            place,
            limits,
        } = step;
        if let Some((member @ (by, call), place)) = *place {
            // Where there are limits, they tell the log.
            let source = if limits.is_empty() {
                engine.answer_outage(&call.check(), &error)
            } else {
                engine.outage_answer(&call.check(), &error)
            };
            let Some(source) = source else {
                return Err(Refused {
                    by,
                    error: error.into(),
                });
            };
            let max = if source == Source::Fallback {
                place.max
            } else {
                u64::MAX
            };
            let Some(in_flight) = engine.permits.add_below(&place.key, max) else {
                return Err(Refused::new(by, place.refused(source)));
            };
            self.permits
                .push(OpenPermit::new(engine, place, None).counted());
            self.note(member, Ok(place.entered(in_flight, source)));
        }
        if limits.is_empty() {
            return Ok(());
        }
        let decided = engine
            .decide_without_store(checks, error)
            .map_err(|refused| {
                let by = limits.get(refused.by).map_or(refused.by, |(by, _)| *by);
                Refused { by, ..refused }
            })?;
        self.admit(limits, decided)
    }

    /// Notes the decisions on these limits, if all of them admit.
    fn admit(&mut self, limits: &[Member<'a>], decided: Vec<Decision>) -> Result<(), Refused> {
        admitted_or_longest(
            limits
                .iter()
                .map(|(by, _)| *by)
                .zip(decided.iter().copied()),
        )?;
        for (&member, decision) in limits.iter().zip(decided) {
            self.note(member, Ok(decision));
        }
        Ok(())
    }
}

/// A step, which one store decides at once: a place, limits, or both.
struct Step<'a> {
    engine: &'a Arc<Engine>,
    place: Option<Placed<'a>>,
    limits: Vec<Member<'a>>,
}

/// The steps in which these are asked. Places come first, unless the last of them and all limits are
/// taken in one step. Steps are everywhere in the same order: two groups that charge the same keys in
/// opposite order may each be refused because of charges that the other gives back.
fn steps<'a>(members: &[Member<'a>]) -> Vec<Step<'a>> {
    let placed = members
        .iter()
        .filter_map(|&(at, call)| Some(((at, call), call.place.as_ref()?)));
    let mut steps: Vec<Step<'a>> = placed
        .map(|placed| Step {
            engine: &placed.0.1.engine,
            place: Some(placed),
            limits: Vec::new(),
        })
        .collect();
    steps.sort_by(|a, b| a.least_key().cmp(&b.least_key()));
    let limited: Vec<Member<'a>> = members
        .iter()
        .copied()
        .filter(|(_, call)| call.is_limited())
        .collect();
    if let Some(last) = steps.last_mut()
        && last.enters_with(&limited)
    {
        last.limits = limited;
        return steps;
    }
    let mut of_limits: Vec<Step<'a>> = Vec::new();
    for member in limited {
        match of_limits.iter_mut().find(|step| step.decides_with(member)) {
            Some(step) => step.limits.push(member),
            None => of_limits.push(Step {
                engine: &member.1.engine,
                place: None,
                limits: vec![member],
            }),
        }
    }
    of_limits.sort_by(|a, b| a.least_key().cmp(&b.least_key()));
    steps.extend(of_limits);
    steps
}

impl Step<'_> {
    fn least_key(&self) -> Option<&[u8]> {
        let place = self.place.iter().map(|(_, place)| &*place.key);
        place
            .chain(self.limits.iter().map(|(_, call)| &*call.key))
            .min()
    }

    /// Whether its place is taken and all these limits are charged in one step.
    fn enters_with(&self, limits: &[Member<'_>]) -> bool {
        let Some((_, place)) = self.place.filter(|_| !limits.is_empty()) else {
            return false;
        };
        let requests: Vec<Request<'_>> = limits
            .iter()
            .map(|(_, call)| call.check().request)
            .collect();
        limits
            .iter()
            .all(|(_, call)| call.engine.id == self.engine.id)
            && self
                .engine
                .store
                .own()
                .decides_together(Some(&place.request(PermitId::next(), None)), &requests)
    }

    /// Whether one more check is decided together with these.
    fn decides_with(&self, (_, more): Member<'_>) -> bool {
        let calls = self.limits.iter().map(|(_, call)| *call).chain([more]);
        let requests: Vec<Request<'_>> = calls.map(|call| call.check().request).collect();
        more.engine.id == self.engine.id
            && self.engine.store.own().decides_together(None, &requests)
    }

    /// Asks the store.
    async fn ask(
        &self,
        permit: Option<&OpenPermit>,
        checks: &[Check<'_>],
        (since, until): (Instant, Instant),
    ) -> Result<Entry, StoreError> {
        let requests: Vec<Request<'_>> = checks.iter().map(|check| check.request).collect();
        if let Some(place) = permit.and_then(|permit| permit.request(Some(until))) {
            // With limits only where the store itself decides on them.
            let store = if requests.is_empty() {
                self.engine.store.innermost()
            } else {
                self.engine.store.own()
            };
            let mut answer = store.enter(place, &requests);
            return self.engine.await_until(since, until, &mut answer).await;
        }
        let verdicts = if let [request] = *requests {
            let mut answer = self.engine.store.acquire(request);
            vec![self.engine.await_until(since, until, &mut answer).await?]
        } else {
            let mut answer = self.engine.store.own().acquire_all(&requests);
            self.engine.await_until(since, until, &mut answer).await?
        };
        Ok(Entry {
            is_full: false,
            in_flight: 0,
            verdicts,
        })
    }
}

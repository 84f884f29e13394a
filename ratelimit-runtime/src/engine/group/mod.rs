//! Several checks together: all are charged and take their places, or none.

mod enter;
mod permit;
mod waiting;

use std::time::Instant;

pub(crate) use self::enter::{in_flight, no_in_flight_limit, peek};
pub use self::permit::CallPermits;
pub(super) use self::waiting::acquire as acquire_all;
use super::call::OwnedCall;
use super::outage::OutageAnswer;
use super::reservations;
use crate::decision::{Decision, Receipt};
use crate::error::{RateLimitError, StoreError};
use crate::store::{Request, Verdict};

/// Why a group was not let through.
#[derive(Debug)]
pub(super) struct Refused {
    /// The index of the check that refused or failed.
    pub(super) by: usize,
    pub(super) error: RateLimitError,
}

/// What came of a group that is let through: of each check, in their order. Those with an error are
/// in shadow mode.
pub(super) type Admitted = Vec<Result<Decision, RateLimitError>>;

/// What came of a group, with the permits of those that take places.
pub(super) type Outcome = Result<(Admitted, CallPermits), Refused>;

/// A check, with its place in the group.
type Member<'a> = (usize, &'a OwnedCall);

/// Asks for the limits of checks that have a say: all of them are charged, or none.
///
/// Checks of one limiter are decided in one step if its store can do that. What one step has
/// charged is given back when a later step refuses or fails, and when the caller drops this future.
/// All steps share the time of the check.
async fn acquire<'a>(members: &[Member<'a>], start: Instant) -> Result<Vec<(Member<'a>, Decision)>, Refused> {
    let mut all = Vec::with_capacity(members.len());
    let mut charged = Charged::default();
    let mut steps = steps(members).into_iter();
    while let Some(step) = steps.next() {
        match together(&step, start).await {
            Ok(decided) => {
                for (member, decision) in step.into_iter().zip(decided) {
                    charged.add(member.1, &decision);
                    all.push((member, decision));
                }
            }
            Err(mut refused) => {
                drop(charged);
                // The refusal that takes longest to end speaks for all.
                if let RateLimitError::Exceeded(longest) = &mut refused.error {
                    for &(at, call) in steps.as_slice().iter().flatten() {
                        if let Ok(other) = call.peek_within(call.limit_after(start)).await
                            && (other.retry_after_us, refused.by) > (longest.retry_after_us, at)
                        {
                            (*longest, refused.by) = (other, at);
                        }
                    }
                }
                return Err(refused);
            }
        }
    }
    charged.keep();
    Ok(all)
}

/// The decision, if it admits.
fn admitted(by: usize, decided: Result<Decision, RateLimitError>) -> Result<Decision, Refused> {
    match decided {
        Ok(decision) if decision.is_allowed() => Ok(decision),
        Ok(refusal) => Err(Refused { by, error: RateLimitError::Exceeded(refusal) }),
        Err(error) => Err(Refused { by, error }),
    }
}

/// What earlier steps have charged; given back unless all steps admit.
#[derive(Default)]
struct Charged<'a>(Vec<(&'a OwnedCall, Receipt)>);

impl<'a> Charged<'a> {
    fn add(&mut self, call: &'a OwnedCall, decision: &Decision) {
        self.0.push((call, decision.charge()));
    }

    /// All steps have admitted.
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        for (call, charge) in self.0.drain(..) {
            reservations::give_back(call, charge);
        }
    }
}

/// Checks that are decided in one step.
type Step<'a> = Vec<Member<'a>>;

/// The checks as the steps in which they are asked; those that one store can decide together are
/// one step.
fn steps<'a>(members: &[Member<'a>]) -> Vec<Step<'a>> {
    let mut by_engine: Vec<Step<'a>> = Vec::new();
    for &(at, call) in members {
        let same = |step: &&mut Step<'_>| step.first().is_some_and(|(_, first)| first.engine.id == call.engine.id);
        match by_engine.iter_mut().find(same) {
            Some(step) => step.push((at, call)),
            None => by_engine.push(vec![(at, call)]),
        }
    }
    let divided = by_engine.into_iter().flat_map(|step| {
        let requests: Vec<Request<'_>> = step.iter().filter_map(|(_, call)| call.check().key_request().ok()).collect();
        let together =
            step.first().is_some_and(|(_, first)| first.engine.store.own().decides_together(None, &requests));
        if step.len() == 1 || together { vec![step] } else { one_by_one(step) }
    });
    divided.collect()
}

/// Everywhere in the same order: of two groups that charge the same keys in opposite order, each
/// may be refused for what the other gives back.
fn one_by_one(mut step: Step<'_>) -> Vec<Step<'_>> {
    step.sort_by(|(_, a), (_, b)| a.check().request.key().cmp(b.check().request.key()));
    step.into_iter().map(|one| vec![one]).collect()
}

/// Asks checks that one store decides in one step.
async fn together(step: &Step<'_>, start: Instant) -> Result<Vec<Decision>, Refused> {
    let [(by, first), others @ ..] = step.as_slice() else { return Ok(Vec::new()) };
    if others.is_empty() {
        let decided = first.acquire(first.limit_after(start)).await;
        return Ok(vec![admitted(*by, decided)?]);
    }
    let limit =
        others.iter().fold(first.limit_after(start), |limit, (_, call)| limit.or_earlier(call.limit_after(start)));
    let mut requests = Vec::with_capacity(step.len());
    for &(by, call) in step {
        let request = call.request().map_err(|error| Refused { by, error })?.with_timeout_at(limit.at());
        if let Some(blocked) = call.engine.fallback.blocked(&call.check()) {
            return Err(Refused { by, error: RateLimitError::Exceeded(call.check().fallback_decision(&blocked)) });
        }
        requests.push(request);
    }
    let mut answer = first.engine.store.own().acquire_all(&requests);
    match first.engine.await_within(limit, &mut answer).await {
        Ok(verdicts) => {
            let decided = step.iter().zip(&verdicts).map(|(&(at, call), verdict)| (at, call.check().decision(verdict)));
            all_or_longest(decided.collect())
        }
        Err(error) => without_store(step, &requests, error),
    }
}

/// The answers for a step whose store gave none. Those that the fallback decides are charged
/// together: all or none.
fn without_store(step: &[Member<'_>], requests: &[Request<'_>], error: StoreError) -> Result<Vec<Decision>, Refused> {
    let known = step.iter().filter_map(|&(at, call)| Some((at, call.engine.known_refusal(&call.check(), &error)?)));
    all_or_longest(known.collect())?;
    let mut answers = Vec::with_capacity(step.len());
    for &(by, call) in step {
        match call.engine.answer_outage(&call.check(), &error) {
            OutageAnswer::Error => return Err(Refused { by, error: error.into() }),
            answer => answers.push(answer),
        }
    }
    let [(by, first), ..] = step else { return Ok(Vec::new()) };
    let by_fallback = requests.iter().zip(&answers).filter(|(_, answer)| **answer == OutageAnswer::Fallback);
    let by_fallback: Vec<Request<'_>> = by_fallback.map(|(request, _)| *request).collect();
    let verdicts = first.engine.fallback.acquire_all(&by_fallback).map_err(|error| Refused { by: *by, error })?;
    let mut verdicts: std::vec::IntoIter<Verdict> = verdicts.into_iter();
    let decided = step.iter().zip(answers).map(|(&(at, call), answer)| {
        let verdict = if answer == OutageAnswer::Fallback { verdicts.next() } else { None };
        (at, verdict.map_or_else(|| call.check().unchecked(), |verdict| call.check().fallback_decision(&verdict)))
    });
    all_or_longest(decided.collect())
}

/// All decisions if all admit; else the refusal that takes longest to end.
fn all_or_longest(decided: Vec<(usize, Decision)>) -> Result<Vec<Decision>, Refused> {
    let refusals = decided.iter().filter(|(_, decision)| !decision.is_allowed());
    // The first of several that last equally long.
    let longest = refusals.reduce(|a, b| if b.1.retry_after_us > a.1.retry_after_us { b } else { a });
    match longest {
        Some(&(by, refusal)) => Err(Refused { by, error: RateLimitError::Exceeded(refusal) }),
        None => Ok(decided.into_iter().map(|(_, decision)| decision).collect()),
    }
}

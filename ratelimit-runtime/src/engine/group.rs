//! Several checks together: all are charged, or none.

use std::time::Instant;

use super::asked::Asked;
use super::fallback::Instead;
use super::settle;
use crate::decision::{Charge, Decision, Source};
use crate::error::{RateLimitError, StoreError};
use crate::observe;
use crate::store::{Request, Verdict};

/// Why a group was not let through.
#[derive(Debug)]
pub(super) struct Refused {
    /// The index of the check that refused or failed.
    pub(super) by: usize,
    pub(super) error: RateLimitError,
}

/// Asks several checks together; the decisions are in their order.
///
/// Checks of one limiter are decided in one step if its store can do that. What one step has charged is given back when
/// a later step refuses or fails, and when the caller drops this future. All steps share the time of the check.
///
/// A check in shadow mode has no say. It is asked once the others have admitted the call.
pub(super) async fn acquire(group: &[Asked], start: Instant) -> Result<Vec<Decision>, Refused> {
    let mut decisions: Vec<Option<Decision>> = vec![None; group.len()];
    let mut charged = Charged::default();
    let mut steps = steps(group).into_iter();
    while let Some(step) = steps.next() {
        match together(&step, start).await {
            Ok(decided) => {
                for (&(at, asked), decision) in step.iter().zip(decided) {
                    charged.0.push((asked, decision.charge()));
                    if let Some(slot) = decisions.get_mut(at) {
                        *slot = Some(decision);
                    }
                }
            }
            Err(mut refused) => {
                drop(charged);
                // The refusal that takes longest to end speaks for all.
                if let RateLimitError::Exceeded(longest) = &mut refused.error {
                    for &(at, asked) in steps.as_slice().iter().flatten() {
                        if let Ok(other) = asked.peek(asked.limit_after(start)).await
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
    let mut all = Vec::with_capacity(group.len());
    for (by, (asked, decision)) in group.iter().zip(decisions).enumerate() {
        all.push(match decision {
            Some(decision) => decision,
            None => asked.acquire(asked.limit_after(start)).await.map_err(|error| Refused { by, error })?,
        });
    }
    charged.0.clear();
    Ok(all)
}

/// What earlier steps have charged; given back unless all steps admit.
#[derive(Default)]
struct Charged<'a>(Vec<(&'a Asked, Charge)>);

impl Drop for Charged<'_> {
    fn drop(&mut self) {
        for (asked, charge) in self.0.drain(..) {
            settle::give_back(asked, charge);
        }
    }
}

/// Checks that are decided in one step, with their places in the group.
type Step<'a> = Vec<(usize, &'a Asked)>;

/// The checks that have a say, as the steps in which they are asked; checks that one store can decide together are one
/// step.
fn steps(group: &[Asked]) -> Vec<Step<'_>> {
    let mut by_engine: Vec<Step<'_>> = Vec::new();
    for (at, asked) in group.iter().enumerate().filter(|(_, asked)| !asked.check().shadow) {
        let same = |step: &&mut Step<'_>| step.first().is_some_and(|(_, first)| first.engine.id == asked.engine.id);
        match by_engine.iter_mut().find(same) {
            Some(step) => step.push((at, asked)),
            None => by_engine.push(vec![(at, asked)]),
        }
    }
    let divided = by_engine.into_iter().flat_map(|step| {
        let requests: Vec<Request<'_>> =
            step.iter().filter_map(|(_, asked)| asked.check().key_request().ok()).collect();
        let together = step.first().is_some_and(|(_, first)| first.engine.store.decides_together(&requests));
        if step.len() == 1 || together { vec![step] } else { one_by_one(step) }
    });
    divided.collect()
}

/// Everywhere in the same order: of two groups that charge the same keys in opposite order, each may be refused for what
/// the other gives back.
fn one_by_one(mut step: Step<'_>) -> Vec<Step<'_>> {
    step.sort_by(|(_, a), (_, b)| a.check().key.cmp(b.check().key));
    step.into_iter().map(|one| vec![one]).collect()
}

/// Asks checks that one store decides in one step.
async fn together(step: &Step<'_>, start: Instant) -> Result<Vec<Decision>, Refused> {
    let [(by, first), others @ ..] = step.as_slice() else { return Ok(Vec::new()) };
    if others.is_empty() {
        let decided = first.acquire(first.limit_after(start)).await;
        return decided.map(|decision| vec![decision]).map_err(|error| Refused { by: *by, error });
    }
    let limit =
        others.iter().fold(first.limit_after(start), |limit, (_, asked)| limit.or_earlier(asked.limit_after(start)));
    let mut requests = Vec::with_capacity(step.len());
    for &(by, asked) in step {
        let request = asked.request().map_err(|error| Refused { by, error })?.with_timeout_at(limit.at());
        if let Some(blocked) = asked.engine.fallback.blocked(&asked.check(), request) {
            return Err(Refused { by, error: RateLimitError::Exceeded(asked.check().fallback_decision(&blocked)) });
        }
        requests.push(request);
    }
    let answer = first.engine.store.acquire_all(&requests);
    match first.by(limit, &requests, answer).await {
        Ok(verdicts) => {
            let decided =
                step.iter().zip(&verdicts).map(|(&(at, asked), verdict)| (at, asked.check().decision(verdict)));
            all_or_longest(decided.collect())
        }
        Err(error) => without_store(step, &requests, error),
    }
}

/// The answers for a step whose store gave none. Those that the memory of this process decides are charged together:
/// all or none.
fn without_store(step: &Step<'_>, requests: &[Request<'_>], error: StoreError) -> Result<Vec<Decision>, Refused> {
    let mut instead = Vec::with_capacity(step.len());
    for (&(by, asked), request) in step.iter().zip(requests) {
        match asked.instead(request, &error) {
            Instead::Error => return Err(Refused { by, error: error.into() }),
            other => {
                let source = if other == Instead::Memory { Source::Fallback } else { Source::Nobody };
                observe::degraded(asked.check().name, source, &error);
                instead.push(other);
            }
        }
    }
    let [(by, first), ..] = step.as_slice() else { return Ok(Vec::new()) };
    let in_memory = requests.iter().zip(&instead).filter(|(_, instead)| **instead == Instead::Memory);
    let in_memory: Vec<Request<'_>> = in_memory.map(|(request, _)| *request).collect();
    let verdicts = first.engine.fallback.acquire_all(&in_memory).map_err(|error| Refused { by: *by, error })?;
    let mut verdicts: std::vec::IntoIter<Verdict> = verdicts.into_iter();
    let decided = step.iter().zip(instead).map(|(&(at, asked), instead)| {
        let verdict = if instead == Instead::Memory { verdicts.next() } else { None };
        (at, verdict.map_or_else(|| asked.check().unchecked(), |verdict| asked.check().fallback_decision(&verdict)))
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

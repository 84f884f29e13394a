//! An attempt at a stack of checks: it charges all of them and acquires their permits, or nothing.
//!
//! ```text
//! held      the admissions of an attempt so far; dropping it gives them back
//! together  for parts that one store decides in one step
//! apart     for other parts: looks at all, reserves all, then commits
//! detached  lets an attempt go on where its caller goes away
//! ```
//!
//! This process counts its own open permits by key: once a key has no more than these, a call is
//! refused without asking, and the count goes on where the store gives no answer.

mod apart;
mod detached;
mod held;
mod together;

use std::collections::BTreeMap;

pub(super) use self::detached::run;
pub(super) use self::held::Admissions;
use self::held::{Admission, Held, StepParts};
use super::outage::{Refused, admitted_or_longest};
use super::part::{At, Part};
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreError};
use crate::store::BuiltInStore as _;

/// The outcome of an attempt.
pub(super) type Attempted = Result<Admissions, Refused>;

/// The parts of each step: first the parts that decide, then each part in shadow mode by itself,
/// once the others have admitted the call, because it refuses nothing.
fn steps(stack: &[Part]) -> impl Iterator<Item = StepParts<'_>> {
    let parts = stack.iter().enumerate();
    let (shadows, deciding): (StepParts<'_>, _) = parts.partition(|(_, part)| part.shadow);
    let shadows = shadows
        .into_iter()
        .map(|shadow| StepParts::from_slice(&[shadow]));
    [deciding].into_iter().chain(shadows)
}

/// Attempts all steps of a stack once.
async fn attempt<'a>(held: &mut Held<'a>, stack: &'a [Part]) -> Attempted {
    let outcome = take_steps(held, stack).await;
    held.share();
    let admissions = std::mem::take(&mut held.admissions);
    outcome.map(|()| admissions)
}

async fn take_steps<'a>(held: &mut Held<'a>, stack: &'a [Part]) -> Result<(), Refused> {
    for parts in steps(stack) {
        match (step(held, &parts).await, parts.first()) {
            // The refusal is noted, and refuses nothing.
            (Err(refused), Some(&(at, shadow))) if shadow.shadow => {
                if let Some(admission) = held.admissions.get_mut(at) {
                    *admission = Admission::of(Err(refused.error));
                }
            }
            (outcome, _) => outcome?,
        }
    }
    Ok(())
}

/// Charges the limits of these `parts` and acquires their permits, or does neither.
async fn step<'a>(held: &mut Held<'a>, parts: &[At<'a>]) -> Result<(), Refused> {
    let mut costs = BTreeMap::new();
    for &(by, part) in parts {
        part.ensure_supported().map_err(Refused::by(by))?;
        if held.shares_keys && part.is_limited() {
            // A key that stands twice has to have room for both.
            let cost: &mut u64 = costs.entry(part.charged_key()).or_default();
            *cost += part.cost();
            if *cost > part.cost() {
                part.may_cost(*cost).map_err(Refused::by(by))?;
            }
        }
    }
    // The time of the most impatient; there may be no parts.
    let times = parts.iter().map(|(_, part)| part.time(held.start));
    let Some(time) = times.min_by_key(|time| time.end) else {
        return Ok(());
    };
    let is_lone = parts.len() == 1;
    let mut permits = BTreeMap::new();
    admitted_or_longest(parts.iter().filter_map(|&(at, part)| {
        let permit = part.permit.as_ref().filter(|_| !is_lone);
        let ahead = permit.map_or(0, |permit| {
            let asked: &mut u64 = permits.entry((part.engine.id, &*permit.key)).or_default();
            *asked += 1;
            *asked - 1
        });
        Some((at, known_refusal(part, is_lone, ahead)?))
    }))?;
    let limited = parts.iter().copied().filter(|(_, part)| part.is_limited());
    let limited: StepParts<'a> = limited.collect();
    if together::is_possible(parts) {
        let permitted = parts.iter().find(|(_, part)| part.permit.is_some());
        together::step(held, limited, permitted.copied(), time).await?;
    } else {
        Box::pin(apart::step(held, parts, limited, time)).await?;
    }
    held.confirm(parts);
    Ok(())
}

/// The decision on a lone check whose store gave this error.
#[cold]
pub(super) fn decide_failed(part: &Part, error: StoreError) -> Result<Decision, RateLimitError> {
    let mut held = Held::new(std::slice::from_ref(part));
    let outcome = held.decide_failed(vec![(0, part, error)]);
    outcome.map_err(|refused| refused.error)?;
    held.confirm(&[(0, part)]);
    let admission = held.admissions.pop();
    debug_assert!(admission.is_some(), "a place for each part");
    let unasked = || Err(RateLimitError::misconfigured("nothing was asked"));
    admission.map_or_else(unasked, |admission| admission.decided)
}

/// The refusal of a part that is known without asking: by its limits, else for lack of a permit. A
/// lone check without a permit is asked in any case, because its store looks itself. `ahead` is the
/// number of permits that the parts before ask of its key.
pub(super) fn known_refusal(part: &Part, is_lone: bool, ahead: u64) -> Option<Decision> {
    let (engine, check, permit) = (&part.engine, part.check(), part.permit.as_ref());
    if part.is_limited() {
        if let Some(blocked) = engine.blocked(&check) {
            return Some(blocked);
        }
        if (!is_lone || permit.is_some())
            && let Some(verdict) = engine.store.refuses_at_once(&check.request)
        {
            return Some(check.decision(&verdict));
        }
    }
    let full = permit.filter(|permit| engine.permits.count(&permit.key) + ahead >= permit.max)?;
    // The count refuses nobody whom an outage admits.
    (!engine.admits_unchecked(&check)).then(|| full.refused(Source::DenyCache))
}

//! A step that one store decides at once: limits, a permit, or both.

use super::held::Held;
use crate::decision::{Decision, Source};
use crate::engine::ask::Time;
use crate::engine::check::Check;
use crate::engine::outage::{Refused, admitted_or_longest};
use crate::engine::part::Part;
use crate::engine::permit::OpenPermit;
use crate::error::StoreError;
use crate::store::{Entry, PermitId, Request};

/// Whether one store decides these parts in one step.
pub(super) fn is_possible(stack: &[Part], parts: &[usize]) -> bool {
    let mut parts = parts.iter().filter_map(|at| stack.get(*at));
    let Some(first) = parts.clone().next() else {
        return true;
    };
    let (count, is_limited) = (parts.clone().count(), first.is_limited());
    let mut permits = parts.clone().filter_map(|part| part.permit.as_ref());
    let permit = permits.next();
    if count == 1 && !(is_limited && permit.is_some()) {
        return true;
    }
    let limited = parts.clone().filter(|part| part.is_limited());
    let requests: Vec<Request<'_>> = limited.map(|part| part.check().request).collect();
    let place = permit.map(|permit| permit.request(PermitId::next(), None));
    permits.next().is_none()
        && parts.all(|part| part.engine.id == first.engine.id)
        && first
            .engine
            .store
            .own()
            .decides_together(place.as_ref(), &requests)
}

/// Charges the limits of these parts and acquires their permit, or neither.
pub(super) async fn step(held: &mut Held<'_>, parts: &[usize], time: Time) -> Result<(), Refused> {
    let limited = held.parts(parts).filter(|(_, part)| part.is_limited());
    let checks: Vec<Check<'_>> = limited
        .clone()
        .map(|(_, part)| {
            let mut check = part.check();
            check.request.timeout_at = Some(time.end);
            check
        })
        .collect();
    let with_permit = held
        .parts(parts)
        .find_map(|(at, part)| Some((at, part, part.permit.as_ref()?)));
    let open = with_permit
        .map(|(_, part, permit)| OpenPermit::new(&part.engine, permit, Some(PermitId::next())));
    let entry = match ask(held, parts, open.as_ref(), &checks, time).await {
        Ok(entry) => entry,
        Err(error) => {
            drop(open);
            return by_policy(held, parts, &checks, &error);
        }
    };
    let decided = checks.iter().zip(&entry.verdicts);
    let decided: Vec<Decision> = decided
        .map(|(check, verdict)| check.decision(verdict))
        .collect();
    debug_assert!(
        entry.is_full || decided.len() == checks.len(),
        "a store gives a verdict for each request"
    );
    admitted_or_longest(
        limited
            .clone()
            .map(|(at, _)| at)
            .zip(decided.iter().copied()),
    )?;
    if let (Some((at, part, permit)), Some(open)) = (with_permit, open) {
        if !entry.is_entered() {
            return Err(Refused::new(at, permit.refused(Source::Store)));
        }
        let _ = part.engine.permits.add_below(&permit.key, u64::MAX);
        held.permits.push(open.counted());
        held.note(at, Ok(permit.admitted(entry.in_flight, Source::Store)));
    }
    for ((at, part), decision) in limited.zip(decided) {
        held.admit_decided(at, part, decision);
    }
    Ok(())
}

async fn ask(
    held: &Held<'_>,
    parts: &[usize],
    open: Option<&OpenPermit>,
    checks: &[Check<'_>],
    time: Time,
) -> Result<Entry, StoreError> {
    let Some((_, Part { engine, .. })) = held.parts(parts).next() else {
        debug_assert!(false, "a step has a part");
        return Err(StoreError::unavailable("nothing was asked"));
    };
    let requests: Vec<Request<'_>> = checks.iter().map(|check| check.request).collect();
    if let Some(place) = open.and_then(|open| open.request(Some(time.end))) {
        // With limits only where the store itself decides on them.
        let store = if requests.is_empty() {
            engine.store.innermost()
        } else {
            engine.store.own()
        };
        let mut answer = store.enter(place, &requests);
        return engine.answered(time, &mut answer).await;
    }
    let verdicts = if let [request] = *requests {
        let mut answer = engine.store.acquire(request);
        vec![engine.answered(time, &mut answer).await?]
    } else {
        let mut answer = engine.store.own().acquire_all(&requests);
        engine.answered(time, &mut answer).await?
    };
    Ok(Entry {
        is_full: false,
        in_flight: 0,
        verdicts,
    })
}

/// A step whose store gave no answer: this process goes on counting its own calls.
fn by_policy(
    held: &mut Held<'_>,
    parts: &[usize],
    checks: &[Check<'_>],
    error: &StoreError,
) -> Result<(), Refused> {
    let permitted = held.parts(parts).find(|(_, part)| part.permit.is_some());
    if let Some((at, part)) = permitted {
        permit_by_policy(held, at, part, error, checks.is_empty())?;
    }
    let Some((_, Part { engine, .. })) = held.parts(parts).next() else {
        debug_assert!(false, "a step has a part");
        return Ok(());
    };
    if checks.is_empty() {
        return Ok(());
    }
    let limited = held.parts(parts).filter(|(_, part)| part.is_limited());
    let decided = engine.decide_by_policy(checks, error).map_err(|refused| {
        let by = limited.clone().nth(refused.by).map(|(at, _)| at);
        debug_assert!(by.is_some(), "one of the checks refuses");
        Refused {
            by: by.unwrap_or(refused.by),
            ..refused
        }
    })?;
    for ((at, part), decision) in limited.zip(decided) {
        held.admit_decided(at, part, decision);
    }
    Ok(())
}

/// The permit of a part whose store gave no answer: its own count goes on. It is logged unless the
/// limits beside it are.
pub(super) fn permit_by_policy(
    held: &mut Held<'_>,
    at: usize,
    part: &Part,
    error: &StoreError,
    is_logged: bool,
) -> Result<(), Refused> {
    let (engine, Some(permit)) = (&part.engine, &part.permit) else {
        debug_assert!(false, "a part that asks for a permit");
        return Ok(());
    };
    let source = if is_logged {
        engine.answer_outage(&part.check(), error)
    } else {
        engine.outage_source(&part.check(), error)
    };
    let source = source.ok_or_else(|| Refused {
        by: at,
        error: error.clone().into(),
    })?;
    let max = if source == Source::Fallback {
        permit.max
    } else {
        u64::MAX
    };
    let Some(in_flight) = engine.permits.add_below(&permit.key, max) else {
        return Err(Refused::new(at, permit.refused(source)));
    };
    held.permits
        .push(OpenPermit::new(engine, permit, None).counted());
    held.note(at, Ok(permit.admitted(in_flight, source)));
    Ok(())
}

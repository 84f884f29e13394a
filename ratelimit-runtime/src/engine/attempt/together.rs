//! A step that one store decides at once: limits, a permit, or both.

use super::held::{Held, StepParts};
use crate::decision::Source;
use crate::engine::outage::Refused;
use crate::engine::part::{At, Part};
use crate::engine::permit::OpenPermit;
use crate::engine::state::Engine;
use crate::engine::timeout::Time;
use crate::error::StoreError;
use crate::store::{BuiltInStore as _, PermitId, PermitVerdict, Request};

/// `true` if one store decides these parts in one step.
pub(super) fn is_possible(parts: &[At<'_>]) -> bool {
    let engine = match parts {
        [] => return true,
        [(_, part)] if part.permit.is_none() || !part.is_limited() => return true,
        [(_, first), ..] => &first.engine,
    };
    let limited = parts.iter().filter(|(_, part)| part.is_limited());
    let requests: Vec<Request<'_>> = limited.map(|(_, part)| part.check().request).collect();
    let mut permits = parts.iter().filter_map(|(_, part)| part.permit.as_ref());
    let permit = permits
        .next()
        .map(|permit| permit.request(PermitId::next(), None));
    permits.next().is_none()
        && parts.iter().all(|(_, part)| part.engine.id == engine.id)
        && engine.store.decides_together(permit.as_ref(), &requests)
}

/// Charges the limits in `limited` and acquires the permit of `permitted`, or does neither.
pub(super) async fn step<'a>(
    held: &mut Held<'a>,
    limited: StepParts<'a>,
    permitted: Option<At<'a>>,
    time: Time,
) -> Result<(), Refused> {
    let Some((_, Part { engine, shadow, .. })) = limited.first().copied().or(permitted) else {
        return Ok(());
    };
    // A part in shadow mode comes after the others, which may have taken all the time.
    let is_late = *shadow && time.is_over();
    let requests = limited.iter().map(|(_, part)| part.check().request);
    let requests: Vec<Request<'_>> = requests.map(|request| time.of(request)).collect();
    let permit = permitted.and_then(|(_, part)| part.permit.as_ref());
    let asked = permit.filter(|_| !is_late);
    let open = asked.map(|permit| OpenPermit::new(engine, permit, Some(PermitId::next())));
    let answered = if is_late {
        Err(time.out())
    } else {
        ask(engine, open.as_ref(), &requests, time).await
    };
    let verdict = match answered {
        Ok(verdict) => verdict,
        // This process goes on counting its own calls.
        Err(error) => {
            drop(open);
            if let Some((at, part)) = permitted {
                let with_limits = limited.iter().any(|(limited, _)| *limited == at);
                held.permit_in_outage((at, part), &error, with_limits)?;
            }
            let failed = limited.into_iter();
            let failed = failed.map(|(at, part)| (at, part, error.clone()));
            return held.decide_failed(failed.collect());
        }
    };
    debug_assert!(
        verdict.is_full || verdict.verdicts.len() == limited.len(),
        "a store gives a verdict for each request"
    );
    if let (Some((at, _)), Some(permit)) = (permitted, permit)
        && verdict.is_full
        && verdict.verdicts.iter().all(|verdict| verdict.allowed)
    {
        return Err(Refused::new(at, permit.refused(Source::Store)));
    }
    let decided = limited.iter().zip(&verdict.verdicts);
    held.admit_all(
        decided.map(|(&part, verdict)| (part, part.1.check().decision(verdict))),
        true,
    )?;
    if let (Some(part), Some(permit), Some(mut open)) = (permitted, permit, open) {
        let _ = open.count_below(u64::MAX);
        let decision = permit.admitted(verdict.in_flight, Source::Store);
        held.hold(part, open, decision);
    }
    Ok(())
}

async fn ask(
    engine: &Engine,
    open: Option<&OpenPermit>,
    requests: &[Request<'_>],
    time: Time,
) -> Result<PermitVerdict, StoreError> {
    let permit = open.and_then(|open| open.request(Some(time.end.into_std())));
    if let ([request], None) = (requests, &permit) {
        let mut answer = engine.store.acquire(*request);
        let verdict = engine.answered(time, &mut answer).await?;
        return Ok(PermitVerdict::of_limits(vec![verdict]));
    }
    let mut answer = engine.store.acquire_all(permit, requests);
    engine.answered(time, &mut answer).await
}

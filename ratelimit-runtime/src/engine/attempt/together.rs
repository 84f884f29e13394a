//! A step that one store decides at once: limits, a permit, or both.

use super::held::{Held, StepParts};
use crate::decision::Source;
use crate::engine::charge::Charge;
use crate::engine::outage::{Refused, admitted_or_longest};
use crate::engine::part::{At, Part};
use crate::engine::permit::OpenPermit;
use crate::engine::state::Engine;
use crate::engine::timeout::Time;
use crate::error::StoreError;
use crate::store::{BuiltInStore as _, PermitId, PermitVerdict, Request};

/// `true` if one store decides these parts in one step.
pub(super) fn is_possible(parts: &[At<'_>]) -> bool {
    let Some(&(_, first)) = parts.first() else {
        return true;
    };
    let mut permits = parts.iter().filter_map(|(_, part)| part.permit.as_ref());
    let permit = permits.next();
    if parts.len() == 1 && !(first.is_limited() && permit.is_some()) {
        return true;
    }
    let limited = parts.iter().filter(|(_, part)| part.is_limited());
    let requests: Vec<Request<'_>> = limited.map(|(_, part)| part.check().request).collect();
    let request = permit.map(|permit| permit.request(PermitId::next(), None));
    let store = &first.engine.store;
    permits.next().is_none()
        && parts
            .iter()
            .all(|(_, part)| part.engine.id == first.engine.id)
        && store.decides_together(request.as_ref(), &requests)
}

/// Charges the limits in `limited` and acquires the permit of `permitted`, or does neither.
pub(super) async fn step<'a>(
    held: &mut Held<'a>,
    limited: StepParts<'a>,
    permitted: Option<At<'a>>,
    time: Time,
) -> Result<(), Refused> {
    let Some((_, Part { engine, .. })) = limited.first().copied().or(permitted) else {
        return Ok(());
    };
    let requests = limited.iter().map(|(_, part)| part.check().request);
    let requests: Vec<Request<'_>> = requests.map(|request| time.of(request)).collect();
    let permit = permitted.and_then(|(_, part)| part.permit.as_ref());
    let open = permit.map(|permit| OpenPermit::new(engine, permit, Some(PermitId::next())));
    let verdict = match ask(engine, open.as_ref(), &requests, time).await {
        Ok(verdict) => verdict,
        // This process goes on counting its own calls.
        Err(error) => {
            drop(open);
            if let Some((at, part)) = permitted {
                let is_logged = limited.is_empty() && !part.is_limited();
                held.permit_in_outage((at, part), &error, is_logged)?;
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
    let decided = limited.iter().zip(&verdict.verdicts);
    let decided = decided.map(|(&(at, part), verdict)| (at, part, part.check().decision(verdict)));
    admitted_or_longest(decided.clone().map(|(at, _, decision)| (at, decision)))?;
    if let (Some((at, part)), Some(permit), Some(mut open)) = (permitted, permit, open) {
        if verdict.is_full {
            return Err(Refused::new(at, permit.refused(Source::Store)));
        }
        let _ = open.count_below(u64::MAX);
        let decision = permit.admitted(verdict.in_flight, Source::Store);
        held.hold((at, part), open, decision);
    }
    for (at, part, decision) in decided {
        let charge = || Charge::new(part, part.reserves, &decision, held.start, None);
        let charge = part.reserves().then(charge);
        held.admit(at, decision, charge);
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

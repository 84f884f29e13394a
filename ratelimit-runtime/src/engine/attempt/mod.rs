//! One attempt at a stack of checks: it charges all of them and acquires their permits, or nothing.
//!
//! ```text
//! held      what an attempt has so far; dropping it gives that back
//! together  where one store decides all of it in one step
//! apart     where it does not: looks at all, reserves all, then commits
//! detached  lets an attempt go on where its caller goes away
//! ```
//!
//! This process counts its own open permits by key: once they are all that a key has, a call is
//! refused without asking, and the count goes on where the store gives no answer.

mod apart;
mod detached;
mod held;
mod together;

use std::time::Instant;

use self::apart::Late;
pub(super) use self::detached::run;
pub(super) use self::held::Admission;
use self::held::{Held, Indices};
use super::outage::{Refused, admitted_or_longest};
use super::part::Part;
use crate::decision::{Decision, Source};

/// The outcome of an attempt.
pub(super) type Attempted = Result<Admission, Refused>;

/// The parts that decide together, and those in shadow mode, which have no say.
fn by_shadow(stack: &[Part]) -> (Indices, Indices) {
    (0..stack.len()).partition(|at| !stack.get(*at).is_some_and(Part::is_shadow))
}

/// Whether an attempt takes several steps.
fn is_apart(stack: &[Part]) -> bool {
    let (parts, shadows) = by_shadow(stack);
    !together::is_possible(stack, &parts)
        || shadows
            .iter()
            .any(|at| !together::is_possible(stack, &[*at]))
}

/// Asks once for all parts. Those in shadow mode have no say: each is asked by itself once the
/// others have admitted the call.
async fn attempt<'a>(stack: &'a [Part], late: &mut Vec<Late<'a>>) -> Attempted {
    let mut held = Held::new(stack, Instant::now());
    let (parts, shadows) = by_shadow(stack);
    step(&mut held, &parts, late).await?;
    for at in shadows {
        // The refusal is noted, and refuses nothing.
        if let Err(refused) = step(&mut held, &[at], late).await {
            held.note(at, Err(refused.error));
        }
    }
    Ok(held.admitted())
}

/// Charges the limits of these parts and acquires their permits, or neither.
async fn step<'a>(
    held: &mut Held<'a>,
    parts: &[usize],
    late: &mut Vec<Late<'a>>,
) -> Result<(), Refused> {
    for (by, part) in held.parts(parts) {
        let refused = |error| Refused { by, error };
        part.may_be_asked().map_err(refused)?;
    }
    let Some(time) = held.time(parts) else {
        return Ok(());
    };
    admitted_or_longest(known(held, parts))?;
    if together::is_possible(held.stack, parts) {
        together::step(held, parts, time).await
    } else {
        Box::pin(apart::step(held, parts, time, late)).await
    }
}

/// The refusals that are known without asking. A lone check without a permit is asked in any case:
/// its store looks by itself.
fn known<'a>(
    held: &Held<'a>,
    parts: &'a [usize],
) -> impl Iterator<Item = (usize, Decision)> + use<'a> {
    let is_lone = parts.len() == 1;
    held.parts(parts).flat_map(move |(at, part)| {
        let (engine, check) = (&part.engine, part.check());
        let permit = part.permit.as_ref();
        let is_lone = is_lone && permit.is_none();
        let refused = permit
            .filter(|permit| engine.permits.count(&permit.key) >= permit.max)
            .map(|permit| permit.refused(Source::Store));
        let is_limited = part.is_limited();
        let blocked = || Some(check.fallback_decision(&engine.fallback.blocked(&check)?));
        let known = || Some(check.decision(&engine.store.own().known_refusal(&check.request)?));
        let limits = is_limited
            .then(|| blocked().or_else(|| (!is_lone).then(known).flatten()))
            .flatten();
        [refused, limits]
            .into_iter()
            .flatten()
            .map(move |it| (at, it))
    })
}

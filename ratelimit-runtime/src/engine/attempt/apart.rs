//! An attempt at parts that no store decides in one step: their keys are in several slots of a
//! cluster, behind a layer, on two limiters, or decided without scripts.
//!
//! Charging one part after the other, and giving back where one refuses, would let a caller whose
//! own limit refuses use up, block and occupy the limits of others. So all parts are looked at
//! first, and a call that one of them refuses leaves nothing. Then all are reserved: a caller that
//! an open reservation refuses is told to wait 50 ms, and that is no offence. Then all are committed
//! or released in the background.
//!
//! No part is charged where less time is left than looking at it took: under more load than the
//! servers bear, charges that are late and undone would be most of it. A charge that is answered
//! after the deadline is released, since the caller has had another answer by then.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::held::{Failed, Held, StepParts};
use super::together;
use crate::algorithm::RESERVED_WAIT;
use crate::decision::Decision;
use crate::engine::charge::Charge;
use crate::engine::inquiry::Inquiry;
use crate::engine::outage::{Refused, admitted_or_longest};
use crate::engine::part::{At, Part};
use crate::engine::state::Settlements;
use crate::engine::timeout::{Boxed, LATEST, Time, all};
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::pace::{self, Backoff};
use crate::store::{Answer, Feature, Store as _, Verdict};

/// The pauses between two looks for room.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(8));

/// How a part's charge is given back if another part refuses, in the order of charging.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    Release,
    Refund,
    Never,
}

impl Undo {
    fn of(part: &Part) -> Self {
        if part.bound.has(Feature::Reserve) {
            Self::Release
        } else if part.bound.has(Feature::Refund) {
            Self::Refund
        } else {
            Self::Never
        }
    }
}

/// Charges the limits in `limited` and acquires the permits of `parts`, or does neither.
pub(super) async fn step<'a>(
    held: &mut Held<'a>,
    parts: &[At<'a>],
    limited: StepParts<'a>,
    time: Time,
) -> Result<(), Refused> {
    let lasting = |(_, part): &&At<'_>| Undo::of(part) == Undo::Never;
    if let Some(&(by, part)) = limited.iter().filter(lasting).nth(1) {
        // Of two parts that can never be given back, the first would stay charged where the second
        // refuses.
        let refused = |error| Refused { by, error };
        part.bound.require(Feature::Refund).map_err(refused)?;
    }
    if let Some(&(by, _)) = limited.get(Settlements::MOST) {
        let why = "a stack that takes several steps has at most 10,000 rules";
        let error = RateLimitError::misconfigured(why);
        return Err(Refused { by, error });
    }
    let is_lone = parts.len() == 1;
    // Of a lone rule, no other caller's limits can be used up: it need not be looked at first.
    let charging = if is_lone {
        limited
    } else {
        let (admitting, failed) = look(parts, time).await?;
        // Where `deny` refuses a part that gave no answer, nothing is charged.
        held.decide_failed(failed)?;
        admitting
    };
    for undo in [Undo::Release, Undo::Refund, Undo::Never] {
        if undo == Undo::Never {
            // After the limits, so that a call that one of them refuses takes none; and what cannot
            // be given back is charged once nothing else can refuse.
            acquire_permits(held, parts, time).await?;
        }
        let of_kind = charging.iter().copied();
        let of_kind: StepParts<'a> = of_kind.filter(|(_, part)| Undo::of(part) == undo).collect();
        match charge(held, &of_kind, time).await {
            Err(refused) if is_lone && undo != Undo::Never => {
                return Err(offence(parts, refused, time, false).await);
            }
            failed => held.decide_failed(failed?)?,
        }
    }
    Ok(())
}

/// Asks all limits and permits at once whether they would admit, without charging. Gives the limits
/// that would, and those that gave no answer, or one too late to charge them in time.
///
/// # Errors
///
/// The refusal that lasts longest. If it is the only one, it counts as an offence.
async fn look<'a>(
    parts: &[At<'a>],
    time: Time,
) -> Result<(StepParts<'a>, Vec<Failed<'a>>), Refused> {
    let inquiries = parts.iter().copied().flat_map(Inquiry::of);
    let inquiries: Vec<Inquiry<'a>> = inquiries.collect();
    // A key that stands twice has to have room for both.
    let mut costs = HashMap::new();
    let looks = inquiries.iter().map(|inquiry| {
        let cost: &mut u64 = costs
            .entry((inquiry.part.engine.id, inquiry.key()))
            .or_default();
        *cost += inquiry.cost();
        let (look, began) = (inquiry.look(*cost, time), Instant::now());
        let timed = async move { (look.await, began.elapsed()) };
        Box::pin(timed) as Boxed<'a, (Result<Decision, StoreError>, Duration)>
    });
    let looks: Vec<_> = looks.collect();
    let (mut admitting, mut failed) = (StepParts::new(), Vec::new());
    let (mut refusals, mut is_known) = (Vec::new(), true);
    let looked = all(looks).await;
    let now = Instant::now();
    for (Inquiry { at, part, permit }, (looked, took)) in inquiries.into_iter().zip(looked) {
        is_known &= looked.is_ok();
        match looked {
            Ok(refusal) if !refusal.is_allowed() => refusals.push((at, refusal)),
            // A permit is asked for in any case, and decided then.
            _ if permit.is_some() => {}
            Ok(_) if now + took > time.end => failed.push((at, part, time.out())),
            Ok(_) => admitting.push((at, part)),
            Err(error) => failed.push((at, part, error)),
        }
    }
    let is_only = is_known && refusals.len() == 1;
    match admitted_or_longest(refusals) {
        Err(refused) if is_only => Err(offence(parts, refused, time, true).await),
        outcome => outcome.map(|()| (admitting, failed)),
    }
}

/// Sets the block of the part whose limits alone refused the call, if it has one. If the part's
/// permit has not been looked for, that is done first. Returns the refusal to report.
async fn offence(parts: &[At<'_>], refused: Refused, time: Time, has_looked: bool) -> Refused {
    let Refused { by, error } = refused;
    if let RateLimitError::Exceeded(refusal) = &error
        && let Some(&(at, part)) = parts.iter().find(|(at, _)| *at == by)
        && !refusal.is_blocked()
        && !refusal.is_in_flight_limit()
        && part.check().request.block.first_us() > 0
        && (has_looked || has_free_permit((at, part), time).await)
        && let Some(blocked) = part.offend(cost_ahead(parts, (at, part)), time).await
    {
        return Refused::new(by, blocked);
    }
    Refused { by, error }
}

/// The cost of the parts before this one on its key, which has to have room for all of them.
fn cost_ahead(parts: &[At<'_>], (at, part): At<'_>) -> u64 {
    let before = parts.iter().take_while(|(other, _)| *other != at);
    let same = before.filter(|(_, other)| other.has_key_of(part));
    same.map(|(_, other)| other.cost()).sum()
}

async fn has_free_permit(part: At<'_>, time: Time) -> bool {
    match Inquiry::of(part).find(|inquiry| inquiry.permit.is_some()) {
        Some(permit) => {
            let looked = permit.look(1, time).await;
            looked.is_ok_and(|decision| decision.is_allowed())
        }
        None => true,
    }
}

/// Charges or reserves these limits, all at once. Gives the limits that gave no answer.
async fn charge<'a>(
    held: &mut Held<'a>,
    parts: &[At<'a>],
    time: Time,
) -> Result<Vec<Failed<'a>>, Refused> {
    let rooms = match rooms(parts, time).await {
        Ok(rooms) => rooms,
        Err(error) => {
            let failed = parts.iter().map(|&(at, part)| (at, part, error.clone()));
            return Ok(failed.collect());
        }
    };
    let charges = parts.iter().map(|&(_, part)| {
        let charge = async move {
            let request = part.charged_for_now(time).request;
            let mut answer = part.engine.store.acquire(request);
            let answered = part.engine.answered(time, &mut answer).await;
            (answered, answer)
        };
        Box::pin(charge) as Boxed<'a, (Result<Verdict, StoreError>, Answer<'a, Verdict>)>
    });
    let (mut refusals, mut failed) = (Vec::new(), Vec::new());
    let answers = all(charges).await;
    for ((&(at, part), (answered, answer)), room) in parts.iter().zip(answers).zip(rooms) {
        let check = part.charged_for_now(time);
        let reserves = check.request.reserves;
        match answered {
            Ok(verdict) if verdict.allowed => {
                let decision = check.decision(&verdict);
                let charge = Charge::new(part, reserves, &decision, held.start, Some(room));
                held.admit(at, decision, Some(charge));
            }
            Ok(verdict) => refusals.push((at, jittered(check.decision(&verdict)))),
            Err(error) => {
                // One that cannot be waited for has not been asked for.
                if answer.is_open() && error.kind() == StoreErrorKind::TimedOut {
                    held.late.push(Box::pin(async move {
                        let since = Instant::now();
                        if let Ok(Ok(verdict)) = pace::timeout(LATEST, answer).await {
                            let decision = part.check().decision(&verdict);
                            drop(Charge::new(part, reserves, &decision, since, Some(room)));
                        }
                    }));
                }
                failed.push((at, part, error));
            }
        }
    }
    admitted_or_longest(refusals).map(|()| failed)
}

/// Takes room to settle each of these charges, waiting until the deadline at most: a flood of
/// stacks must not cause an outage of its own. A stack that waits holds none of it, because a
/// settlement that finds no room is given up.
async fn rooms(parts: &[At<'_>], time: Time) -> Result<Vec<OwnedSemaphorePermit>, StoreError> {
    let (mut pauses, mut is_full) = (PAUSES, false);
    while !time.is_over() {
        let rooms = parts
            .iter()
            .map(|(_, part)| part.engine.settlements.try_room());
        if let Some(rooms) = rooms.collect::<Option<Vec<_>>>() {
            return Ok(rooms);
        }
        is_full = true;
        if pace::can_wait().is_err() {
            break;
        }
        tokio::time::sleep_until(time.end.min(Instant::now() + pauses.pause())).await;
    }
    Err(if is_full {
        StoreError::timed_out("too many charges are being settled")
    } else {
        time.out()
    })
}

/// Acquires the permits that these parts ask for.
async fn acquire_permits<'a>(
    held: &mut Held<'a>,
    parts: &[At<'a>],
    time: Time,
) -> Result<(), Refused> {
    for &(at, part) in parts.iter().filter(|(_, part)| part.permit.is_some()) {
        if time.is_over() {
            held.permit_in_outage((at, part), &time.out(), !part.is_limited())?;
        } else {
            together::step(held, StepParts::new(), Some((at, part)), time).await?;
        }
    }
    Ok(())
}

/// Adds a random time to the wait of a refusal that only open reservations cause: two stacks that
/// charge the last units in opposite order would refuse each other again and again.
fn jittered(refusal: Decision) -> Decision {
    let is_by_reservations = refusal.retry_after_us == RESERVED_WAIT && !refusal.is_blocked();
    let more = RandomState::new().hash_one(0) % RESERVED_WAIT;
    Decision {
        retry_after_us: refusal.retry_after_us + if is_by_reservations { more } else { 0 },
        ..refusal
    }
}

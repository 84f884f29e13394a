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

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
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
use crate::store::{Answer, Feature, Store as _};

/// The pauses between two looks for room.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(8));

/// The way to give a part's charge back if another part refuses. Parts are charged in this order.
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
        let required = part.bound.require(Feature::Refund);
        required.map_err(Refused::by(by))?;
    }
    if let Some(&(by, _)) = limited.get(Settlements::MOST) {
        let why = "a stack that takes several steps has at most 10,000 rules";
        return Err(Refused::by(by)(RateLimitError::misconfigured(why)));
    }
    let is_lone = parts.len() == 1;
    let blocks = parts.iter().any(|(_, part)| part.blocks());
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
            // Whether it is an offence is only looked at now.
            Err(refused) if is_lone && undo != Undo::Never && blocks => {
                return Err(look(parts, time).await.err().unwrap_or(refused));
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
/// The refusal that lasts longest. If only limits on one key refuse, their block is set.
async fn look<'a>(
    parts: &[At<'a>],
    time: Time,
) -> Result<(StepParts<'a>, Vec<Failed<'a>>), Refused> {
    // A key that stands twice has to have room for both.
    let mut costs = HashMap::new();
    let inquiries = parts.iter().copied().flat_map(Inquiry::of).map(|inquiry| {
        let key = (inquiry.part.engine.id, inquiry.key());
        let cost: &mut u64 = costs.entry(key).or_default();
        *cost += inquiry.cost();
        (inquiry, *cost)
    });
    let inquiries: Vec<(Inquiry<'a>, u64)> = inquiries.collect();
    let began = Instant::now();
    let looks = inquiries.iter().map(|&(inquiry, cost)| {
        let timed = async move { (inquiry.look(cost, time).await, began.elapsed()) };
        Box::pin(timed) as Boxed<'a, (Result<Decision, StoreError>, Duration)>
    });
    let looked = all(looks).await;
    let now = Instant::now();
    let (mut admitting, mut failed) = (StepParts::new(), Vec::new());
    let (mut refusals, mut refusing, mut is_known) = (Vec::new(), None, true);
    let mut is_one_key = true;
    for ((inquiry, cost), (looked, took)) in inquiries.into_iter().zip(looked) {
        let Inquiry { at, part, permit } = inquiry;
        is_known &= looked.is_ok();
        match looked {
            Ok(refusal) if !refusal.is_allowed() => {
                refusals.push((at, refusal));
                let key = (part.engine.id, inquiry.key());
                // Of a key that stands twice, the last part asks for all.
                let before = refusing.replace((part, cost, key));
                is_one_key &= before.is_none_or(|(.., before)| before == key);
            }
            // A permit is asked for in any case, and decided then.
            _ if permit.is_some() => {}
            Ok(_) if now + took > time.end => failed.push((at, part, time.out())),
            Ok(_) => admitting.push((at, part)),
            Err(error) => failed.push((at, part, error)),
        }
    }
    if let (Some((by, refusal)), Some((part, cost, _))) = (refusals.last(), refusing)
        && is_one_key
        && is_known
        && !refusal.is_blocked()
        && !refusal.is_in_flight_limit()
        && part.blocks()
        && let Some(blocked) = part.offend(cost, time).await
    {
        return Err(Refused::new(*by, blocked));
    }
    admitted_or_longest(refusals).map(|()| (admitting, failed))
}

/// The decision on a charge, and the charge if it was made.
type Charged = (Decision, Option<Charge>);

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
    let start = held.start;
    let charges = parts.iter().zip(rooms).map(|(&(_, part), room)| {
        let charge = async move {
            let request = part.charged_for_now(time);
            let charged = part.engine.store.acquire(request);
            let mut answer = charged.map(move |verdict| {
                let decision = part.check().decision(&verdict);
                let charge = || Charge::new(part, request.reserves, &decision, start, Some(room));
                (decision, verdict.allowed.then(charge))
            });
            let answered = part.engine.answered(time, &mut answer).await;
            (answered, answer)
        };
        Box::pin(charge) as Boxed<'a, (Result<Charged, StoreError>, Answer<'a, Charged>)>
    });
    let (mut refusals, mut failed) = (Vec::new(), Vec::new());
    for (&(at, part), (answered, answer)) in parts.iter().zip(all(charges).await) {
        match answered {
            Ok((decision, charge)) if decision.is_allowed() => held.admit(at, decision, charge),
            Ok((refusal, _)) => refusals.push((at, jittered(refusal))),
            Err(error) => {
                // One that cannot be waited for has not been asked for.
                if answer.is_open() && error.kind() == StoreErrorKind::TimedOut {
                    held.late.push(Box::pin(async move {
                        drop(pace::timeout(LATEST, answer).await);
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
    let mut many = BTreeMap::new();
    for (_, part) in parts {
        let of_engine = many.entry(part.engine.id);
        of_engine.or_insert((&part.engine.settlements, 0)).1 += 1;
    }
    let (mut pauses, mut is_full) = (PAUSES, false);
    while !time.is_over() {
        // All of a limiter in one step.
        let rooms = many
            .iter()
            .map(|(id, (settlements, many))| Some((*id, settlements.try_room(*many)?)));
        if let Some(mut rooms) = rooms.collect::<Option<BTreeMap<_, _>>>() {
            let one = |(_, part): &At<'_>| rooms.get_mut(&part.engine.id)?.split(1);
            let each: Vec<_> = parts.iter().filter_map(one).collect();
            debug_assert_eq!(each.len(), parts.len(), "each charge has room");
            return Ok(each);
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
            held.permit_in_outage((at, part), &time.out(), false)?;
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

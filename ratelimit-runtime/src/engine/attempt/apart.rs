//! An attempt at parts that no store decides in one step: they are on several nodes of a cluster,
//! behind a layer, on two limiters, or decided without scripts.
//!
//! The usual way, to charge one after the other and to give back where one refuses, lets anybody
//! who is refused by a limit of his own use up, block and occupy what is another's. So all parts
//! are looked at first, and a call that one of them refuses leaves nothing; then all are reserved,
//! which tells nobody else a long wait and blocks nobody; then all are committed, or all released,
//! by what nobody waits for.
//!
//! No step begins after the deadline. What is answered after that is released: its caller has been
//! told something else.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::held::{Held, Indices};
use super::together::permit_by_policy;
use crate::algorithm::RESERVED_WAIT;
use crate::decision::{Decision, Source};
use crate::engine::ask::{Boxed, LATEST, Time, all};
use crate::engine::charge::{Charge, Completion};
use crate::engine::check::Check;
use crate::engine::outage::{Refused, admitted_or_longest};
use crate::engine::part::Part;
use crate::engine::permit::{OpenPermit, PermitCheck};
use crate::engine::state::Engine;
use crate::error::{RateLimitError, StoreError, StoreErrorKind};
use crate::real_time;
use crate::store::{Answer, Feature, PermitId, Reserves, Store as _, Verdict};

/// A charge whose answer did not come in time.
pub(super) struct Late<'a> {
    part: &'a Part,
    reserves: Reserves,
    answer: Answer<'a, Verdict>,
    room: Option<OwnedSemaphorePermit>,
}

/// What a store said in time, and its answer, which may still come.
type Asked<'a> = (Result<Verdict, StoreError>, Answer<'a, Verdict>);

/// A part that is charged for now, to be given back unless all are.
struct Charged {
    at: usize,
    decision: Decision,
    charge: Charge,
}

/// The parts of a step so far. Dropping it gives all charges back.
#[derive(Default)]
struct Progress {
    charged: Vec<Charged>,
    failed: Vec<(usize, StoreError)>,
}

/// Charges the limits of these parts and acquires their permits, or neither.
pub(super) async fn step<'a>(
    held: &mut Held<'a>,
    parts: &[usize],
    time: Time,
    late: &mut Vec<Late<'a>>,
) -> Result<(), Refused> {
    let limited = held.parts(parts).filter(|(_, part)| part.is_limited());
    let limited: Indices = limited.map(|(at, _)| at).collect();
    let plain = |(_, part): &(usize, &Part)| !is_given_back(part);
    if let Some((by, part)) = held.parts(&limited).filter(plain).nth(1) {
        // The first of them could not be given back where the second refuses.
        let error = part.bound.require(Feature::Refund).err();
        return error.map_or(Ok(()), |error| Err(Refused { by, error }));
    }
    let mut progress = Progress::default();
    // The permit of a lone rule is as much its caller's as the limits are: no look protects anybody.
    let charging = if parts.len() > 1 {
        look(held, parts, &limited, time, &mut progress).await?
    } else {
        limited
    };
    // Where the policy refuses a part that gave no answer, nothing is charged.
    progress.decide_failed(held)?;
    let [reserved, refunded, plain] = by_kind(held, &charging);
    for kind in [reserved, refunded] {
        match progress.charge(held, &kind, time, late).await {
            Err(refused) if parts.len() == 1 => {
                return Err(offence(held, refused, time, false).await);
            }
            charged => charged?,
        }
    }
    progress.decide_failed(held)?;
    acquire_permits(held, parts, time).await?;
    // What cannot be given back is charged once nothing else can refuse.
    progress.charge(held, &plain, time, late).await?;
    progress.decide_failed(held)?;
    for Charged {
        at,
        decision,
        charge,
    } in progress.charged
    {
        let Some(part) = held.stack.get(at) else {
            debug_assert!(false, "a part of the stack was charged");
            continue;
        };
        if part.reserves() {
            held.admit(at, decision, Some(charge));
            continue;
        }
        match charge.otherwise {
            Completion::Release => charge.complete(Completion::Commit),
            _ => charge.keep(),
        }
        held.admit(at, decision, None);
    }
    Ok(())
}

/// Whether a charge of a part can be given back.
fn is_given_back(part: &Part) -> bool {
    part.bound.has(Feature::Reserve) || part.bound.has(Feature::Refund)
}

/// The parts that can be reserved, those that can be refunded, and the one that can be neither.
fn by_kind(held: &Held<'_>, parts: &[usize]) -> [Indices; 3] {
    let [mut reserved, mut refunded, mut plain] = <[Indices; 3]>::default();
    for (at, part) in held.parts(parts) {
        match (part.bound.has(Feature::Reserve), is_given_back(part)) {
            (true, _) => reserved.push(at),
            (false, true) => refunded.push(at),
            (false, false) => plain.push(at),
        }
    }
    [reserved, refunded, plain]
}

/// Asks all limits and permits at once whether they would admit. Gives the limits that do; the
/// others have failed.
///
/// # Errors
///
/// The refusal that takes longest to end. Where it is the only one, it is an offence.
async fn look(
    held: &Held<'_>,
    parts: &[usize],
    limited: &[usize],
    time: Time,
    progress: &mut Progress,
) -> Result<Indices, Refused> {
    let permits = held.parts(parts);
    let permits = permits.filter_map(|(at, part)| Some((at, part, part.permit.as_deref()?)));
    let mut looks = Vec::new();
    // A key that stands twice has to have room for both.
    for (at, part) in held.parts(limited) {
        let check = part.check();
        let so_far = held.parts(limited).filter(|(other, _)| *other <= at);
        let same = so_far.filter(|(_, other)| {
            other.engine.id == part.engine.id && other.check().request.key() == check.request.key()
        });
        let cost = same.map(|(_, other)| other.check().request.cost()).sum();
        let may_be = part
            .bound
            .may_be_asked(check.terms, cost, check.request.reserves);
        may_be.map_err(|error| Refused { by: at, error })?;
        looks.push(Box::pin(part.look(cost, time)) as Boxed<'_, _>);
    }
    for (at, part, permit) in permits.clone() {
        let same = permits.clone().filter(|(other, before, of_other)| {
            *other < at && before.engine.id == part.engine.id && of_other.key == permit.key
        });
        let others = same.count() as u64;
        looks.push(Box::pin(part.look_for(permit, others, time)) as Boxed<'_, _>);
    }
    let mut looked: Vec<Result<Decision, StoreError>> = all(looks).await;
    let of_permits = looked.split_off(limited.len());
    let (mut admitting, mut refusals) = (Indices::new(), Vec::new());
    for (at, looked) in limited.iter().copied().zip(looked) {
        match looked {
            Ok(decision) if decision.is_allowed() => admitting.push(at),
            Ok(refusal) => refusals.push((at, refusal)),
            Err(error) => progress.failed.push((at, error)),
        }
    }
    // A permit that nobody could look for is asked for in any case, and decided by policy then.
    let is_known = progress.failed.is_empty() && of_permits.iter().all(Result::is_ok);
    for ((at, ..), looked) in permits.zip(of_permits) {
        let refusal = looked.ok().filter(|decision| !decision.is_allowed());
        refusals.extend(refusal.map(|refusal| (at, refusal)));
    }
    let is_only = is_known && refusals.len() == 1;
    match admitted_or_longest(refusals) {
        Err(refused) if is_only => Err(offence(held, refused, time, true).await),
        refused => refused.map(|()| admitting),
    }
}

/// Sets the block of the part whose limits alone refused the call, if it has one. Where nobody has
/// looked for the part's permit, that is done first. Gives the refusal to tell.
async fn offence(held: &Held<'_>, refused: Refused, time: Time, has_looked: bool) -> Refused {
    let Refused { by, error } = refused;
    if let (RateLimitError::Exceeded(refusal), Some(part)) = (&error, held.stack.get(by))
        && !refusal.is_blocked()
        && !refusal.is_in_flight_limit()
        && part.check().request.block.first_us() > 0
        && (has_looked || part.has_free_permit(time).await)
        && let Some(blocked) = part.offend(time).await
    {
        return Refused::new(by, blocked);
    }
    Refused { by, error }
}

impl Part {
    /// What the limits say of this cost, without a charge.
    async fn look(&self, cost: u64, time: Time) -> Result<Decision, StoreError> {
        let check = self.check();
        let request = check.request.with_cost(cost).with_timeout_at(time.end);
        let mut answer = self.engine.store.peek(request);
        let verdict = self.engine.answered(time, &mut answer).await;
        verdict.map(|verdict| check.decision(&verdict))
    }

    /// Whether a permit is free beside so many `others` that the call asks for.
    async fn look_for(
        &self,
        permit: &PermitCheck,
        others: u64,
        time: Time,
    ) -> Result<Decision, StoreError> {
        let in_flight = self.ask_in_flight(permit, time).await? + others;
        Ok(if in_flight < permit.max {
            permit.admitted(in_flight, Source::Store)
        } else {
            permit.refused(Source::Store)
        })
    }

    async fn has_free_permit(&self, time: Time) -> bool {
        let Some(permit) = self.permit.as_deref() else {
            return true;
        };
        let looked = self.look_for(permit, 0, time).await;
        looked.is_ok_and(|decision| decision.is_allowed())
    }

    /// Sets the block of a rule whose limits refuse a call that nothing else refuses. Gives the
    /// refusal by it, where there is one now.
    async fn offend(&self, time: Time) -> Option<Decision> {
        let (engine, check) = (&self.engine, self.check());
        let mut request = check.request;
        request.timeout_at = Some(time.end);
        let mut answer = engine.store.innermost().offend(request);
        match engine.answered(time, &mut answer).await {
            Ok(verdict) => (!verdict.allowed).then(|| check.decision(&verdict)),
            // A store of another crate cannot look and block in one step.
            Err(error) if error.kind() == StoreErrorKind::Unsupported => {
                let mut answer = engine.store.block(request, request.block());
                let blocked = engine.answered(time, &mut answer).await;
                blocked.ok().map(|()| check.blocked())
            }
            Err(_) => None,
        }
    }
}

impl Progress {
    /// Charges these limits at once.
    async fn charge<'a>(
        &mut self,
        held: &Held<'a>,
        charging: &[usize],
        time: Time,
        late: &mut Vec<Late<'a>>,
    ) -> Result<(), Refused> {
        let rooms = match rooms(held, charging, time).await {
            Ok(rooms) => rooms,
            Err(error) => {
                let failed = charging.iter().map(|at| (*at, error.clone()));
                self.failed.extend(failed);
                return Ok(());
            }
        };
        let charges = held.parts(charging).map(|(_, part)| {
            let charge = async move {
                let request = part.charged_for_now(time).request;
                let mut answer = part.engine.store.acquire(request);
                let answered = part.engine.answered(time, &mut answer).await;
                (answered, answer)
            };
            Box::pin(charge) as Boxed<'a, Asked<'a>>
        });
        let charges = all(charges).await.into_iter().zip(rooms);
        let mut refusals = Vec::new();
        for ((at, part), ((answered, answer), room)) in held.parts(charging).zip(charges) {
            let check = part.charged_for_now(time);
            let reserves = check.request.reserves;
            match answered {
                Ok(verdict) if verdict.allowed => {
                    let decision = check.decision(&verdict);
                    let receipt = decision.charge();
                    let charge = Charge::new(part, reserves, receipt, held.start, Some(room));
                    self.charged.push(Charged {
                        at,
                        decision,
                        charge,
                    });
                }
                Ok(verdict) => refusals.push((at, jittered(check.decision(&verdict)))),
                Err(error) => {
                    // One that cannot be waited for has not been asked for.
                    if answer.is_open() && error.kind() == StoreErrorKind::TimedOut {
                        late.push(Late {
                            part,
                            reserves,
                            answer,
                            room: Some(room),
                        });
                    }
                    self.failed.push((at, error));
                }
            }
        }
        admitted_or_longest(refusals)
    }

    /// Decides the parts whose store gave no answer by their policies; those that one fallback
    /// decides are charged together.
    fn decide_failed(&mut self, held: &Held<'_>) -> Result<(), Refused> {
        let mut failed = std::mem::take(&mut self.failed);
        while let Some((at, error)) = failed.pop() {
            let Some(first) = held.stack.get(at) else {
                debug_assert!(false, "a part of the stack has failed");
                continue;
            };
            let is_with = |(at, _): &(usize, StoreError)| {
                let part = held.stack.get(*at);
                part.is_some_and(|part| part.engine.id == first.engine.id)
            };
            let (with, others) = failed.into_iter().partition::<Vec<_>, _>(is_with);
            failed = others;
            let together: Indices = [at]
                .into_iter()
                .chain(with.iter().map(|(at, _)| *at))
                .collect();
            let checks: Vec<Check<'_>> = held
                .parts(&together)
                .map(|(_, part)| part.check())
                .collect();
            let decided = first.engine.decide_by_policy(&checks, &error);
            let decided = decided.map_err(|refused| {
                let by = together.get(refused.by).copied();
                debug_assert!(by.is_some(), "one of the checks refuses");
                Refused {
                    by: by.unwrap_or(at),
                    ..refused
                }
            })?;
            for ((at, part), decision) in held.parts(&together).zip(decided) {
                let reserves = part.check().request.reserves;
                let charge = Charge::new(part, reserves, decision.charge(), held.start, None);
                self.charged.push(Charged {
                    at,
                    decision,
                    charge,
                });
            }
        }
        Ok(())
    }
}

/// Room to settle each of these charges, waited for until the deadline: a flood of stacks must not
/// make its own outage.
async fn rooms(
    held: &Held<'_>,
    charging: &[usize],
    time: Time,
) -> Result<Vec<OwnedSemaphorePermit>, StoreError> {
    let mut rooms: Vec<(usize, OwnedSemaphorePermit)> = Vec::new();
    let engines = held.parts(charging).map(|(_, part)| &part.engine);
    // In one order everywhere, so that no two stacks wait for each other.
    let engines: BTreeMap<u64, &Arc<Engine>> = engines.map(|engine| (engine.id, engine)).collect();
    for (id, engine) in engines {
        let of_engine = held
            .parts(charging)
            .filter(|(_, part)| part.engine.id == id);
        let many = u32::try_from(of_engine.clone().count()).unwrap_or(u32::MAX);
        let settlements = &engine.settlements;
        let mut room = settlements.try_room(many);
        if room.is_none() && real_time::can_wait().is_ok() {
            let waited = real_time::timeout_at(time.start, time.end, settlements.room(many)).await;
            room = waited.ok().flatten();
        }
        let full = || StoreError::timed_out("too many charges are being settled");
        let mut room = room.ok_or_else(full)?;
        rooms.extend(of_engine.filter_map(|(at, _)| Some((at, room.split(1)?))));
    }
    if time.is_over() {
        return Err(time.out());
    }
    rooms.sort_by_key(|(at, _)| *at);
    debug_assert_eq!(rooms.len(), charging.len(), "each charge has room");
    Ok(rooms.into_iter().map(|(_, room)| room).collect())
}

/// Acquires the permits that these parts ask for: last, so that a call that a limit refuses takes
/// none.
async fn acquire_permits(held: &mut Held<'_>, parts: &[usize], time: Time) -> Result<(), Refused> {
    let before = held.permits.len();
    for (at, part) in held.parts(parts) {
        let Some(permit) = &part.permit else {
            continue;
        };
        let acquired = acquire_permit(held, at, part, time).await;
        if acquired.is_err() {
            held.permits.truncate(before);
        }
        acquired?;
        debug_assert!(
            held.permits.len() > before,
            "a permit of {:?} is held",
            permit.name
        );
    }
    Ok(())
}

async fn acquire_permit(
    held: &mut Held<'_>,
    at: usize,
    part: &Part,
    time: Time,
) -> Result<(), Refused> {
    let (engine, Some(permit)) = (&part.engine, &part.permit) else {
        debug_assert!(false, "a part that asks for a permit");
        return Ok(());
    };
    let is_logged = !part.is_limited();
    if time.is_over() {
        return permit_by_policy(held, at, part, &time.out(), is_logged);
    }
    let open = OpenPermit::new(engine, permit, Some(PermitId::next()));
    let Some(place) = open.request(Some(time.end)) else {
        debug_assert!(false, "a permit that is asked for has an id");
        return Ok(());
    };
    let mut answer = engine.store.innermost().enter(place, &[]);
    match engine.answered(time, &mut answer).await {
        Ok(entry) if entry.is_entered() => {
            let _ = engine.permits.add_below(&permit.key, u64::MAX);
            held.permits.push(open.counted());
            held.note(at, Ok(permit.admitted(entry.in_flight, Source::Store)));
            Ok(())
        }
        Ok(_) => Err(Refused::new(at, permit.refused(Source::Store))),
        Err(error) => {
            drop(open);
            permit_by_policy(held, at, part, &error, is_logged)
        }
    }
}

/// Waits for answers that came too late, and gives back what they have charged.
pub(super) async fn release_late(late: Vec<Late<'_>>) {
    let released = late.into_iter().map(|late| {
        let release = async move {
            let Late {
                part,
                reserves,
                answer,
                room,
            } = late;
            let since = std::time::Instant::now();
            if let Ok(Ok(verdict)) = real_time::timeout(LATEST, answer).await {
                let receipt = part.check().decision(&verdict).charge();
                drop(Charge::new(part, reserves, receipt, since, room));
            }
        };
        Box::pin(release) as Boxed<'_, _>
    });
    all(released).await;
}

/// The refusal of a reservation that others' open ones refuse lasts a random time more: two stacks
/// that charge the last slots in opposite order would refuse each other again and again.
fn jittered(refusal: Decision) -> Decision {
    let is_by_reservations = refusal.retry_after_us == RESERVED_WAIT && !refusal.is_blocked();
    let more = RandomState::new().hash_one(0) % RESERVED_WAIT;
    Decision {
        retry_after_us: refusal.retry_after_us + if is_by_reservations { more } else { 0 },
        ..refusal
    }
}

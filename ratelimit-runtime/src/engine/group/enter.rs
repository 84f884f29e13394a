//! Entering: takes the places of a group of checks, before the limits beside them or in one step
//! with them.
//!
//! This process counts its own open permits by key: what holds all places of a key refuses without
//! asking, and the count goes on where the store gives no answer.

use std::sync::Arc;
use std::time::Instant;

use super::permit::{CallPermits, OpenPermit};
use super::{Charged, Member, Outcome, Refused, all_or_longest, without_store};
use crate::decision::{Decision, Source};
use crate::engine::call::OwnedCall;
use crate::engine::check::PlaceCheck;
use crate::engine::outage::OutageAnswer;
use crate::engine::state::PermitCounts;
use crate::engine::time_limit::TimeLimit;
use crate::error::{RateLimitError, StoreError};
use crate::store::{Entry, Feature, PermitId, Request};

/// Asks once, for checks that take places and others: all are charged and enter, or none. A check in
/// shadow mode has no say; it is asked once the others have admitted the call.
///
/// Where the last place and all limits are of one store that can do it, they are taken in one step.
/// Else places come first, everywhere in the same order, and are left if a limit refuses.
pub(super) async fn acquire(group: &[OwnedCall]) -> Outcome {
    let decisions = vec![None; group.len()];
    let mut entering = Entering { start: Instant::now(), decisions, permits: Vec::new(), charged: Charged::default() };
    let (shadows, others): (Vec<Member<'_>>, Vec<_>) =
        group.iter().enumerate().partition(|(_, call)| call.check().shadow);
    entering.all(&others).await?;
    for shadow in shadows {
        // What refuses it is told.
        if let Err(refused) = entering.all(&[shadow]).await {
            entering.note(shadow, Err(refused.error));
        }
    }
    entering.charged.keep();
    let nothing = || Err(RateLimitError::misconfigured("nothing was asked"));
    let decisions = entering.decisions.into_iter().map(|decision| decision.unwrap_or_else(nothing));
    Ok((decisions.collect(), CallPermits::new(entering.permits)))
}

/// What has been decided so far. Dropping it leaves all places, and gives back what was charged.
struct Entering<'a> {
    start: Instant,
    decisions: Vec<Option<Result<Decision, RateLimitError>>>,
    permits: Vec<OpenPermit>,
    charged: Charged<'a>,
}

impl<'a> Entering<'a> {
    fn note(&mut self, (at, call): Member<'a>, decision: Result<Decision, RateLimitError>) {
        if let Ok(decision) = &decision {
            self.charged.add(call, decision);
        }
        if let Some(noted) = self.decisions.get_mut(at) {
            *noted = Some(decision);
        }
    }

    /// Takes the places of these, and charges their limits; or neither.
    async fn all(&mut self, members: &[Member<'a>]) -> Result<(), Refused> {
        for &(by, call) in members {
            sound(call).map_err(|error| Refused { by, error })?;
        }
        let earlier = self.permits.len();
        let outcome = self.enter_all(members).await;
        if outcome.is_err() {
            self.permits.truncate(earlier);
        }
        outcome
    }

    async fn enter_all(&mut self, members: &[Member<'a>]) -> Result<(), Refused> {
        let placed = members.iter().filter_map(|&(at, call)| Some((at, call, call.place()?)));
        let mut placed: Vec<(usize, &'a OwnedCall, &'a Arc<PlaceCheck>)> = placed.collect();
        // Of two groups that take the same places in opposite order, each may be refused for what
        // the other leaves again.
        placed.sort_by(|(_, _, a), (_, _, b)| a.key().cmp(b.key()));
        let limited: Vec<Member<'a>> = members.iter().copied().filter(|(_, call)| call.is_limited()).collect();
        let together = placed.last().is_some_and(|(_, call, place)| enters_together(call, place, &limited));
        let last = placed.len().saturating_sub(1);
        for (index, &(at, call, place)) in placed.iter().enumerate() {
            let beside = if together && index == last { &limited[..] } else { &[] };
            self.enter((at, call), place, beside).await?;
        }
        if together || limited.is_empty() {
            return Ok(());
        }
        for (member, decision) in super::acquire(&limited, self.start).await? {
            self.note(member, Ok(decision));
        }
        Ok(())
    }

    /// Takes one place, and charges these limits in the same step.
    async fn enter(
        &mut self,
        (by, call): Member<'a>,
        place: &Arc<PlaceCheck>,
        beside: &[Member<'a>],
    ) -> Result<(), Refused> {
        let engine = &call.engine;
        let refuse = |decision| Err(Refused { by, error: RateLimitError::Exceeded(decision) });
        if engine.permits.count(place.key()) >= place.max() {
            return refuse(place.refused(Source::Store));
        }
        let limit = beside
            .iter()
            .fold(call.limit_after(self.start), |limit, (_, call)| limit.or_earlier(call.limit_after(self.start)));
        let mut requests = Vec::with_capacity(beside.len());
        for &(by, call) in beside {
            let check = call.check();
            if let Some(blocked) = engine.fallback.blocked(&check) {
                return Err(Refused { by, error: RateLimitError::Exceeded(check.fallback_decision(&blocked)) });
            }
            requests.push(check.request.with_timeout_at(limit.at()));
        }
        // Of several refusals the longest is told, which the store alone knows.
        if let (&[(by, call)], [request]) = (beside, &*requests)
            && let Some(refusal) = engine.store.own().known_refusal(request)
        {
            return Err(Refused { by, error: RateLimitError::Exceeded(call.check().decision(&refusal)) });
        }
        let id = PermitId::next();
        let permit = OpenPermit::new(engine, place, Some(id));
        // With limits only where the store itself decides on them.
        let store = if requests.is_empty() { engine.store.innermost() } else { engine.store.own() };
        let mut answer = store.enter(place.request(id, Some(limit.at())), &requests);
        let answer = engine.await_within(limit, &mut answer).await;
        match answer {
            Ok(entry) => {
                let decided = decided(&entry, beside).map_err(|error| Refused { by, error })?;
                if !entry.is_entered() {
                    permit.has_no_place();
                    all_or_longest(decided)?;
                    return refuse(place.refused(Source::Store));
                }
                engine.permits.add(place.key());
                self.permits.push(permit.counted());
                self.note((by, call), Ok(place.entered(entry.in_flight, Source::Store)));
                for (&member, (_, decision)) in beside.iter().zip(decided) {
                    self.note(member, Ok(decision));
                }
                Ok(())
            }
            Err(error) => {
                drop(permit);
                self.enter_without_store((by, call), place, beside, &requests, error)
            }
        }
    }

    /// The answer where the store gave none: this process goes on counting its own calls.
    fn enter_without_store(
        &mut self,
        (by, call): Member<'a>,
        place: &Arc<PlaceCheck>,
        beside: &[Member<'a>],
        requests: &[Request<'_>],
        error: StoreError,
    ) -> Result<(), Refused> {
        let (engine, check) = (&call.engine, call.check());
        // Where there are limits, they tell the log.
        let answer =
            if beside.is_empty() { engine.answer_outage(&check, &error) } else { engine.outage_answer(&check, &error) };
        let Some((source, in_flight)) = count_without_store(answer, &engine.permits, place) else {
            let error = match answer {
                OutageAnswer::Error => error.into(),
                _ => RateLimitError::Exceeded(place.refused(Source::Fallback)),
            };
            return Err(Refused { by, error });
        };
        self.permits.push(OpenPermit::new(engine, place, None).counted());
        self.note((by, call), Ok(place.entered(in_flight, source)));
        if !beside.is_empty() {
            let decided = without_store(beside, requests, error)?;
            for (&member, decision) in beside.iter().zip(decided) {
                self.note(member, Ok(decision));
            }
        }
        Ok(())
    }
}

/// Who counts a call in place of the store, and how many are in flight with it; `None` if it may
/// not run.
fn count_without_store(answer: OutageAnswer, open: &PermitCounts, place: &PlaceCheck) -> Option<(Source, u64)> {
    match answer {
        OutageAnswer::Fallback => Some((Source::Fallback, open.add_below(place.key(), place.max())?)),
        OutageAnswer::Unchecked => Some((Source::Nobody, open.add(place.key()))),
        OutageAnswer::Error => None,
    }
}

/// What an entry says to these limits.
fn decided(entry: &Entry, beside: &[Member<'_>]) -> Result<Vec<(usize, Decision)>, RateLimitError> {
    if entry.verdicts.len() != beside.len() && !entry.is_full {
        return Err(RateLimitError::misconfigured("the store has not decided on every limit beside a place"));
    }
    let decided = beside.iter().zip(&entry.verdicts);
    Ok(decided.map(|(&(at, call), verdict)| (at, call.check().decision(verdict))).collect())
}

/// Whether the check is sound, and the store declares what it needs.
fn sound(call: &OwnedCall) -> Result<(), RateLimitError> {
    if call.is_limited() {
        call.request()?;
    } else {
        call.key_request()?;
    }
    let Some(place) = call.place() else { return Ok(()) };
    call.require(Feature::Concurrent)?;
    if place.max() == 0 {
        return Err(RateLimitError::CostExceedsLimit {
            rule: place.name().as_str(),
            cost: 1,
            limit: 0,
            is_of_log: false,
        });
    }
    Ok(())
}

/// Whether one store takes the place and charges all limits in one step.
fn enters_together(call: &OwnedCall, place: &PlaceCheck, limited: &[Member<'_>]) -> bool {
    if limited.is_empty() || limited.iter().any(|(_, limited)| limited.engine.id != call.engine.id) {
        return false;
    }
    let requests: Vec<Request<'_>> = limited.iter().map(|(_, call)| call.check().request).collect();
    call.engine.store.own().decides_together(Some(&place.request(PermitId::next(), None)), &requests)
}

/// How many calls are in flight.
pub(crate) async fn in_flight(call: &OwnedCall) -> Result<u64, RateLimitError> {
    sound(call)?;
    let Some(place) = call.place() else { return Err(no_in_flight_limit(call)) };
    ask_in_flight(call, place).await.map_err(Into::into)
}

/// Decides as entering would, and takes nothing.
pub(crate) async fn peek(call: &OwnedCall) -> Result<Decision, RateLimitError> {
    sound(call)?;
    let limits = if call.is_limited() { Some(call.peek().await?) } else { None };
    let Some(place) = call.place() else { return limits.ok_or_else(|| no_in_flight_limit(call)) };
    let (source, in_flight) = match ask_in_flight(call, place).await {
        Ok(in_flight) => (Source::Store, in_flight),
        Err(error) => match call.engine.outage_answer(&call.check(), &error) {
            OutageAnswer::Fallback => (Source::Fallback, call.engine.permits.count(place.key())),
            OutageAnswer::Unchecked => (Source::Nobody, 0),
            OutageAnswer::Error => return Err(error.into()),
        },
    };
    let standing = if in_flight < place.max() { place.entered(in_flight, source) } else { place.refused(source) };
    Ok(match limits {
        Some(limits) if !limits.is_allowed() || standing.is_allowed() => limits,
        _ => standing,
    })
}

async fn ask_in_flight(call: &OwnedCall, place: &PlaceCheck) -> Result<u64, StoreError> {
    let limit = TimeLimit::new(call.timeout());
    let request = place.request(PermitId::next(), Some(limit.at()));
    let mut answer = call.engine.store.innermost().in_flight(request);
    call.engine.await_within(limit, &mut answer).await
}

/// What a call is told whose rule has no places.
pub(crate) fn no_in_flight_limit(call: &OwnedCall) -> RateLimitError {
    let rule = call.check().name.as_str();
    RateLimitError::misconfigured(format!(
        "the rule `{rule}` does not limit calls in flight: give it `with_concurrent(…)`, or call `acquire`"
    ))
}

//! Waiting: a stack is attempted again until it is admitted, while the rules that refuse it wait.
//!
//! Callers that a key has refused take turns: of a thousand that wait, one asks the store, and
//! then as many as there is room for; a caller that arrives while others wait queues behind them. A
//! stack has one turn at a time, for the key that refused it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::{self, Attempted};
use super::inquiry::Inquiry;
use super::outage::{Refused, admitted_or_longest};
use super::part::Part;
use super::state::Turn;
use super::timeout::{Boxed, all};
use crate::algorithm::RESERVED_WAIT;
use crate::decision::{Decision, Source};
use crate::error::{RateLimitError, StoreErrorKind};
use crate::pace;
use crate::store::{BuiltInStore as _, Health};

/// The pause after a refusal without a wait, by a store that counts in seconds.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
/// The shortest and longest pause before a waiting call asks for a permit again, in milliseconds.
const SHORTEST_PAUSE: u64 = 50;
const LONGEST_PAUSE: u64 = 250;

/// The longest wait for the store before a caller renews its turn.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// The inquiries of the parts that wait if they are refused.
fn waited_for(stack: &[Part]) -> impl Iterator<Item = Inquiry<'_>> {
    let inquiries = stack.iter().enumerate().flat_map(Inquiry::of);
    inquiries.filter(|inquiry| !inquiry.part.wait().is_zero())
}

/// Attempts a stack, and again for as long as the rules that refuse it wait.
pub(super) async fn acquire(stack: &Arc<[Part]>) -> Attempted {
    match stack.iter().position(|part| !part.wait().is_zero()) {
        None => attempt::run(stack, None).await.0,
        Some(first) => Box::pin(acquire_in_turn(stack, first)).await,
    }
}

async fn acquire_in_turn(stack: &Arc<[Part]>, first: usize) -> Attempted {
    if let Err(why) = pace::can_wait() {
        let error = RateLimitError::misconfigured(format!("`wait` cannot be kept here: {why}"));
        return Err(Refused::by(first)(error));
    }
    // What is never admitted waits for no turn.
    for (by, part) in stack.iter().enumerate().filter(|(_, part)| !part.shadow) {
        part.ensure_supported().map_err(Refused::by(by))?;
    }
    let start = Instant::now();
    let (mut turn, mut retry_at, mut is_away) = (None::<Turn>, start, false);
    let mut refused: Option<(Decision, Instant)> = None;
    // A caller that comes while others wait is behind them.
    let mut next = waited_for(stack)
        .find(|inquiry| inquiry.part.engine.turns.front(inquiry.queue()).is_some());
    loop {
        if let Some(inquiry) = next {
            let until = start + inquiry.part.wait();
            // The turn of another key is given up first, so that no caller waits for one key while
            // it keeps the turn of another.
            turn = turn.filter(|turn| is_turn_of(turn, &inquiry));
            if turn.is_none() {
                let longest = refused.and_then(|(refusal, _)| longest(&refusal));
                if let Some(refused) = refused_beside(stack, &inquiry, longest, until).await {
                    return Err(refused);
                }
                let turns = &inquiry.part.engine.turns;
                turn = turns.join(inquiry.queue(), beside(stack, inquiry.at));
            }
            let comes_in_time = match &mut turn {
                Some(turn) => turn.wait(retry_at, until, inquiry.permit.is_some()).await,
                None => false,
            };
            if !comes_in_time {
                return out_of_time(stack, &inquiry, refused).await;
            }
            if let Some(turn) = turn.as_ref().filter(|_| is_away) {
                served(&inquiry, turn, until).await;
            }
        }
        if let Some(turn) = &turn {
            turn.begin(longest_attempt(stack));
        }
        let outcome;
        (outcome, turn) = attempt::run(stack, turn).await;
        if let (Some(turn), Some(inquiry)) = (&turn, &next) {
            turn.end(room_after(&outcome, inquiry));
        }
        is_away = is_refused_unasked(&outcome);
        let (by, refusal) = match &outcome {
            Err(Refused {
                by,
                error: RateLimitError::Exceeded(refusal),
            }) => (*by, Some(*refusal)),
            Err(Refused { by, .. }) if is_away => (*by, None),
            _ => return outcome,
        };
        let is_permit = refusal.is_some_and(|refusal| refusal.is_in_flight_limit());
        next = waited_for(stack)
            .find(|asked| asked.at == by && (is_away || asked.permit.is_some() == is_permit));
        let Some(inquiry) = &next else { return outcome };
        let (now, until) = (Instant::now(), start + inquiry.part.wait());
        retry_at = match refusal {
            None => now + pause(),
            Some(_) if is_permit => {
                // In a memory of this process a permit may have been released before this caller
                // stood in the queue, when no caller was woken: so it asks at once. The last
                // attempt is made when the time is up.
                let is_queued = turn.as_ref().is_some_and(|turn| is_turn_of(turn, inquiry));
                let asks_at_once = inquiry.part.engine.in_memory && !is_queued;
                until.min(
                    now + if asks_at_once {
                        Duration::ZERO
                    } else {
                        pause()
                    },
                )
            }
            Some(refusal) => match refusal.retry_after() {
                Some(retry_after) => now + retry_after.max(LEAST_PAUSE),
                None => return outcome,
            },
        };
        if retry_at > until || now >= until {
            return outcome;
        }
        refused = refusal.map(|refusal| (refusal, now)).or(refused);
    }
}

fn is_turn_of(turn: &Turn, inquiry: &Inquiry<'_>) -> bool {
    turn.is_of(&inquiry.part.engine.turns, inquiry.queue())
}

/// The longest that another limit of the stack may refuse for, after this refusal, the longest of
/// those that were found; `None` if no store was asked, so that nothing is known of the others.
fn longest(refusal: &Decision) -> Option<Duration> {
    match refusal.source() {
        Source::DenyCache => None,
        Source::Store if !refusal.is_in_flight_limit() => refusal.retry_after(),
        // Only if no limit refuses, a missing permit does. In an outage no store can be asked.
        _ => Some(Duration::ZERO),
    }
}

/// The refusal by another limit of the stack that lasts longer than its rule waits, so that the
/// call would queue in vain: a caller whose own limit is used up must not fill the queue. Limits
/// that refuse at most for `longest` are not asked where their rules wait for as long. Looking
/// takes no longer than the call would wait. Where the queue has no room, no store is asked.
async fn refused_beside(
    stack: &[Part],
    inquiry: &Inquiry<'_>,
    longest: Option<Duration>,
    until: Instant,
) -> Option<Refused> {
    let others = stack
        .iter()
        .enumerate()
        .filter(|(_, part)| !part.shadow && longest.is_none_or(|longest| part.wait() < longest));
    let others = others.flat_map(Inquiry::of).filter(|other| {
        // A permit that is waited for is never asked for in vain.
        other.queue() != inquiry.queue() && (other.permit.is_none() || other.part.wait().is_zero())
    });
    let others: Vec<_> = others.collect();
    if others.is_empty() {
        return None;
    }
    let turns = &inquiry.part.engine.turns;
    let has_room = turns.has_room(inquiry.queue(), beside(stack, inquiry.at));
    let looks = others.into_iter().map(|other| {
        let look = async move {
            let mut time = other.part.time(Instant::now());
            time.end = time.end.min(until);
            let known = attempt::known_refusal(other.part, false, 0)
                .filter(|known| known.is_in_flight_limit() == other.permit.is_some());
            let looked = match known {
                // A look counts units that were taken ahead as used, an attempt gives them back.
                None if has_room && other.part.check().request.prefetch_us == 0 => {
                    other.look(other.cost(), time).await.ok()
                }
                known => known,
            };
            let wait = other.part.wait();
            let is_in_vain = |refusal: &Decision| {
                let retry_after = refusal.retry_after();
                retry_after.is_none_or(|retry_after| retry_after > wait)
            };
            Some((other.at, looked.filter(is_in_vain)?))
        };
        Box::pin(look) as Boxed<'_, Option<(usize, Decision)>>
    });
    admitted_or_longest(all(looks).await.into_iter().flatten()).err()
}

/// The keys of the other parts' limits, each with the number of such calls that its limits may
/// admit while the stack waits: no more need to wait beside it.
fn beside(stack: &[Part], at: usize) -> impl Iterator<Item = (&[u8], u64)> {
    let wait = stack.iter().map(Part::wait).max().unwrap_or_default();
    let others = stack.iter().enumerate();
    let others =
        others.filter(move |(other, part)| *other != at && !part.shadow && part.is_limited());
    others.map(move |(_, part)| {
        let request = part.check().request;
        let most = request.limits().iter().map(|limit| {
            let windows = wait.as_micros().div_ceil(limit.window().as_micros());
            let windows = u64::try_from(windows).unwrap_or(u64::MAX);
            let meanwhile = limit.max().saturating_mul(windows);
            request
                .algorithm()
                .capacity(limit)
                .saturating_add(meanwhile)
        });
        let most = most.min().unwrap_or(u64::MAX);
        (request.key(), most / request.cost().max(1))
    })
}

/// `true` if the store did not serve, and was not asked: what may have been charged is not charged
/// again. Under other policies than `deny` the call has been answered.
fn is_refused_unasked(outcome: &Attempted) -> bool {
    matches!(outcome, Err(Refused { error: RateLimitError::Unavailable(error), .. })
        if error.kind() == StoreErrorKind::Unavailable && !error.is_lost())
}

/// Waits until the store of an inquiry serves, or cannot, or until `until`. The caller keeps its
/// turn as long as its runtime is driven.
async fn served(inquiry: &Inquiry<'_>, turn: &Turn, until: Instant) {
    let (store, check) = (&inquiry.part.engine.store, inquiry.part.check());
    while store.health(&check.request) != Health::Up {
        turn.begin(LONGEST_LOOK);
        let look = until.min(Instant::now() + LONGEST_LOOK);
        let ready = pace::timeout_at(look, store.ready_for(Some(check.request))).await;
        if ready.is_ok() || look == until {
            return;
        }
    }
}

/// The number of further calls of the same cost that the inquiry's key has room for.
fn room_after(outcome: &Attempted, inquiry: &Inquiry<'_>) -> u64 {
    let admitted = outcome.as_ref().ok();
    let Some(admission) = admitted.and_then(|all| all.get(inquiry.at)) else {
        return 0;
    };
    let remaining = match &inquiry.permit {
        Some(_) => admission.permit.as_ref().map(|permit| permit.left),
        None => admission
            .decided
            .as_ref()
            .ok()
            .map(|decision| decision.remaining),
    };
    remaining.unwrap_or(0) / inquiry.cost().max(1)
}

/// The longest time that an attempt takes: the longest timeout of its parts.
fn longest_attempt(stack: &[Part]) -> Duration {
    let now = Instant::now();
    let ends = stack.iter().map(|part| part.time(now).end);
    ends.fold(now, Ord::max) - now
}

/// The pause before a permit, or a store that gave no answer, is asked again.
fn pause() -> Duration {
    let spread = RandomState::new().hash_one(0) % (LONGEST_PAUSE - SHORTEST_PAUSE + 1);
    Duration::from_millis(SHORTEST_PAUSE + spread)
}

/// The answer to a caller that had no turn in time, or for which the queue had no room. A store
/// that serves is not asked: a unit that is free now belongs to the first in the queue, and all
/// callers that give up at this moment would ask at once.
async fn out_of_time(
    stack: &Arc<[Part]>,
    inquiry: &Inquiry<'_>,
    refused: Option<(Decision, Instant)>,
) -> Attempted {
    let &Inquiry {
        at: by,
        part,
        permit,
    } = inquiry;
    let check = part.check();
    let store = &part.engine.store;
    if store.health(&check.request) != Health::Up {
        // There is no room to wait for: the policy answers.
        return attempt::run(stack, None).await.0;
    }
    if let Some(permit) = permit {
        return Err(Refused::new(by, permit.refused(Source::DenyCache)));
    }
    let now = Instant::now();
    let known = || Some(check.decision(&store.known_refusal(&check.request, false)?));
    let refusal = refused
        .map(|(refusal, then)| refusal.aged(now.saturating_duration_since(then)))
        .or_else(known)
        .unwrap_or_else(|| check.unasked(RESERVED_WAIT));
    // A unit may be free already, but not for this caller.
    let first = part.engine.turns.front(inquiry.queue());
    let first = first.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
    let at_least = first.max(Duration::from_millis(1)).as_micros();
    let at_least = u64::try_from(at_least).unwrap_or(u64::MAX);
    Err(Refused::new(
        by,
        Decision {
            retry_after_us: refusal.retry_after_us.max(at_least),
            ..refusal
        },
    ))
}

//! Waiting: several checks are tried again until they are admitted, for as long as the rules that
//! refuse allow.
//!
//! Callers that a key has refused take turns: of a thousand that wait, one asks the store, and a
//! caller that comes while others wait goes behind them. A group holds one turn at a time, that of
//! the key that refused it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::{self, Attempted};
use super::call::OwnedCall;
use super::outage::Refused;
use super::state::Turn;
use crate::decision::{Decision, Source, Status};
use crate::error::RateLimitError;
use crate::real_time;
use crate::store::Health;

/// Between two looks whether another process has left a place, in milliseconds.
const SHORTEST_PAUSE: u64 = 50;
const LONGEST_PAUSE: u64 = 250;

/// A key that may refuse an attempt: that of a check's limits, or of its place.
#[derive(Clone, Copy)]
struct WaitedFor<'a> {
    check: usize,
    call: &'a OwnedCall,
    key: &'a [u8],
    is_place: bool,
}

impl<'a> WaitedFor<'a> {
    fn of(group: &'a [OwnedCall], check: usize, is_place: bool) -> Option<Self> {
        let call = group.get(check)?;
        let key = if is_place {
            &*call.place.as_ref()?.key
        } else {
            &*call.key
        };
        (is_place || call.is_limited()).then_some(Self {
            check,
            call,
            key,
            is_place,
        })
    }
}

/// How long the rule of a call waits; zero for not at all.
fn wait_of(call: &OwnedCall) -> Duration {
    if call.check().may_queue() {
        call.terms.wait
    } else {
        Duration::ZERO
    }
}

/// Asks several checks together, and again for as long as the rules that refuse wait.
pub(super) async fn acquire(group: &[OwnedCall]) -> Attempted {
    let Some(first) = group.iter().position(|call| !wait_of(call).is_zero()) else {
        return attempt::acquire(group).await;
    };
    if let Err(why) = real_time::can_wait() {
        let error = RateLimitError::misconfigured(format!("`wait` cannot be kept here: {why}"));
        return Err(Refused { by: first, error });
    }
    let start = Instant::now();
    let mut turn: Option<(WaitedFor<'_>, Turn<'_>)> = None;
    let mut refused: Option<(Decision, Instant)> = None;
    let (mut retry_at, mut has_asked_for_place) = (start, false);
    // A caller who comes while others wait stands behind them.
    let keys = (0..group.len())
        .flat_map(|check| [false, true].map(|is_place| WaitedFor::of(group, check, is_place)));
    let mut next = keys
        .flatten()
        .find(|key| !wait_of(key.call).is_zero() && key.call.engine.turns.are_waited_for(key.key));
    loop {
        if let Some(key) = next {
            // The turn of another key is given up first, so that no caller waits for one key while
            // it keeps the turn of another.
            let is_same = |of: &WaitedFor<'_>| (of.check, of.is_place) == (key.check, key.is_place);
            let kept = turn
                .take()
                .filter(|(of, _)| is_same(of))
                .map(|(_, turn)| turn);
            let until = start + wait_of(key.call);
            let in_time = match kept.or_else(|| key.call.engine.turns.join(key.key)) {
                Some(joined) => {
                    turn.insert((key, joined))
                        .1
                        .wait(retry_at, until, key.is_place)
                        .await
                }
                None => false,
            };
            if !in_time {
                return out_of_time(group, &key, refused).await;
            }
        }
        let (check, refusal) = match attempt::acquire(group).await {
            Err(Refused {
                by,
                error: RateLimitError::Exceeded(refusal),
            }) => (by, refusal),
            outcome => return outcome,
        };
        let now = Instant::now();
        let is_place = refusal.is_in_flight_limit();
        next = WaitedFor::of(group, check, is_place);
        let retry = next.and_then(|key| {
            let until = start + wait_of(key.call);
            if !is_place {
                return Some(now + refusal.retry_after()?)
                    .filter(|retry| !wait_of(key.call).is_zero() && *retry <= until);
            }
            // In a memory of this process a place may have been left before this caller had the
            // turn, when no caller was woken: so the first time it asks at once. The last attempt
            // is made when the time is up.
            let is_first =
                !std::mem::replace(&mut has_asked_for_place, true) && key.call.engine.in_memory;
            (now < until).then(|| until.min(now + if is_first { Duration::ZERO } else { pause() }))
        });
        match retry {
            Some(retry) => (retry_at, refused) = (retry, Some((refusal, now))),
            None => return Err(Refused::new(check, refusal)),
        }
    }
}

/// How long to pause before a place is asked for again.
fn pause() -> Duration {
    let spread = RandomState::new().hash_one(0) % (LONGEST_PAUSE - SHORTEST_PAUSE + 1);
    Duration::from_millis(SHORTEST_PAUSE + spread)
}

/// The answer to a caller whose time was up before its turn came, or that found no room in the
/// queue.
async fn out_of_time(
    group: &[OwnedCall],
    key: &WaitedFor<'_>,
    refused: Option<(Decision, Instant)>,
) -> Attempted {
    let (by, call) = (key.check, key.call);
    let serves = call
        .key_request()
        .is_ok_and(|request| call.engine.store.innermost().health(&request) == Health::Up);
    if !serves {
        // There are no slots to wait for: the policy answers.
        return attempt::acquire(group).await;
    }
    if let Some(place) = call.place.as_ref().filter(|_| key.is_place) {
        return Err(Refused::new(by, place.refused(Source::Store)));
    }
    // Not asked again: a slot that is free now belongs to the first in the queue, and all callers
    // that give up at this moment would ask at once.
    let now = Instant::now();
    let decision = if let Some((refusal, then)) = refused {
        refusal.aged(now.saturating_duration_since(then))
    } else {
        let decision = call
            .peek_since(std::time::Instant::now())
            .await
            .map_err(|error| Refused { by, error })?;
        if decision.source() == Source::Nobody {
            return attempt::acquire(group).await;
        }
        decision
    };
    // A slot may be free already, but not for this caller.
    let front = key
        .call
        .engine
        .turns
        .front(key.key)
        .map(|at| at.saturating_duration_since(now));
    let at_least = front.unwrap_or_default().max(Duration::from_millis(1));
    let at_least = u64::try_from(at_least.as_micros()).unwrap_or(u64::MAX);
    let status = if decision.is_blocked() {
        Status::Blocked
    } else {
        Status::Exceeded
    };
    let refusal = Decision {
        status,
        retry_after_us: decision.retry_after_us.max(at_least),
        ticket: 0,
        ..decision
    };
    Err(Refused::new(by, refusal))
}

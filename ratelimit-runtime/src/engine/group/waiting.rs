//! Waiting: several checks are tried again until they are admitted, for as long as the rules that
//! refuse allow.
//!
//! Callers that a key has refused take turns: a thousand that wait ask the store once, not a
//! thousand times, and a caller that comes while others wait goes behind them. A group holds one
//! turn at a time, that of the key that refused it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use tokio::time::Instant;

use super::{Outcome, Refused, enter};
use crate::decision::{Decision, Source, Status};
use crate::engine::call::OwnedCall;
use crate::engine::state::{Turn, Turns};
use crate::error::RateLimitError;
use crate::real_time;
use crate::rule::Limit;
use crate::store::Health;

/// Between two looks whether another process has left a place, in milliseconds.
const SHORTEST_PAUSE: u64 = 50;
const LONGEST_PAUSE: u64 = 250;

/// A key that may refuse an attempt: of the limits of a check, or of its place.
#[derive(Clone, Copy)]
struct WaitedFor<'a> {
    check: usize,
    call: &'a OwnedCall,
    key: &'a [u8],
    is_place: bool,
    /// How long its rule waits; zero for not at all.
    wait: Duration,
}

impl<'a> WaitedFor<'a> {
    fn turns(&self) -> &'a Turns {
        &self.call.engine.turns
    }
}

/// Asks several checks together, and again for as long as the rules that refuse wait.
pub(in crate::engine) async fn acquire(group: &[OwnedCall]) -> Outcome {
    let wait_of = |call: &OwnedCall| if call.check().may_queue() { call.check().terms.wait } else { Duration::ZERO };
    let Some(first) = group.iter().position(|call| !wait_of(call).is_zero()) else {
        return enter::acquire(group).await;
    };
    if let Err(why) = real_time::can_wait() {
        let error = RateLimitError::misconfigured(format!("`wait` cannot be kept here: {why}"));
        return Err(Refused { by: first, error });
    }
    let mut keys: Vec<WaitedFor<'_>> = Vec::with_capacity(group.len());
    for (check, call) in group.iter().enumerate() {
        let wait = wait_of(call);
        if call.is_limited() {
            keys.push(WaitedFor { check, call, key: call.check().request.key(), is_place: false, wait });
        }
        if let Some(place) = call.place() {
            keys.push(WaitedFor { check, call, key: place.key(), is_place: true, wait });
        }
    }
    let attempt = group.iter().map(OwnedCall::timeout).max().unwrap_or_default().min(Limit::MAX_WINDOW);
    let start = Instant::now();
    let mut turn: Option<(usize, Turn<'_>)> = None;
    let mut refused: Option<(Decision, Instant)> = None;
    let (mut retry_at, mut has_asked_for_place) = (start, false);
    // A caller who comes while others wait stands behind them.
    let mut next = keys.iter().position(|key| !key.wait.is_zero() && key.turns().are_waited_for(key.key));
    loop {
        if let Some((by, key)) = next.and_then(|by| Some((by, keys.get(by)?))) {
            // The turn of another key is given up first, so that no caller waits for one key while
            // it keeps the turn of another.
            let kept = turn.take().filter(|(of, _)| *of == by).map(|(_, turn)| turn);
            let in_time = match kept.or_else(|| key.turns().join(key.key, attempt)) {
                Some(joined) => turn.insert((by, joined)).1.wait(retry_at, start + key.wait, key.is_place).await,
                None => false,
            };
            if !in_time {
                return out_of_time(group, key, refused).await;
            }
        }
        let (check, refusal) = match enter::acquire(group).await {
            Err(Refused { by, error: RateLimitError::Exceeded(refusal) }) => (by, refusal),
            outcome => return outcome,
        };
        let now = Instant::now();
        let is_place = refusal.is_in_flight_limit();
        next = keys.iter().position(|key| key.check == check && key.is_place == is_place);
        let retry = next.and_then(|by| keys.get(by)).and_then(|key| {
            let until = start + key.wait;
            if !is_place {
                return Some(now + refusal.retry_after()?).filter(|retry| !key.wait.is_zero() && *retry <= until);
            }
            // In a memory of this process a place may have been left before this caller had the
            // turn, and woke none: so the first time it asks at once. The last attempt is made when
            // the time is up.
            let is_first = !std::mem::replace(&mut has_asked_for_place, true) && key.call.engine.in_memory;
            (now < until).then(|| until.min(now + if is_first { Duration::ZERO } else { pause() }))
        });
        match retry {
            Some(retry) => (retry_at, refused) = (retry, Some((refusal, now))),
            None => return Err(Refused { by: check, error: RateLimitError::Exceeded(refusal) }),
        }
    }
}

/// How long to pause before a place is asked for again.
fn pause() -> Duration {
    let spread = RandomState::new().hash_one(0) % (LONGEST_PAUSE - SHORTEST_PAUSE + 1);
    Duration::from_millis(SHORTEST_PAUSE + spread)
}

/// The answer to a caller whose time was up before its turn came, or for whom there was no room in
/// the queue.
async fn out_of_time(group: &[OwnedCall], key: &WaitedFor<'_>, refused: Option<(Decision, Instant)>) -> Outcome {
    let (by, call) = (key.check, key.call);
    let serves = call.key_request().is_ok_and(|request| call.engine.store.innermost().health(&request) == Health::Up);
    if !serves {
        // There are no slots to wait for: the policy answers.
        return enter::acquire(group).await;
    }
    if let Some(place) = call.place().filter(|_| key.is_place) {
        return Err(Refused { by, error: RateLimitError::Exceeded(place.refused(Source::Store)) });
    }
    // Not asked again: a slot that comes free now belongs to the first in the queue, and all who
    // give up at this moment would ask at once.
    let now = Instant::now();
    let decision = if let Some((refusal, then)) = refused {
        refusal.aged(now.saturating_duration_since(then))
    } else {
        let decision = call.peek().await.map_err(|error| Refused { by, error })?;
        if decision.source() == Source::Nobody {
            return enter::acquire(group).await;
        }
        decision
    };
    // A slot may be free already, but not for this caller.
    let front = key.turns().front(key.key).map(|at| at.saturating_duration_since(now));
    let at_least = front.unwrap_or_default().max(Duration::from_millis(1));
    let at_least = u64::try_from(at_least.as_micros()).unwrap_or(u64::MAX);
    let status = if decision.is_blocked() { Status::Blocked } else { Status::Exceeded };
    let refusal = Decision { status, retry_after_us: decision.retry_after_us.max(at_least), ticket: 0, ..decision };
    Err(Refused { by, error: RateLimitError::Exceeded(refusal) })
}

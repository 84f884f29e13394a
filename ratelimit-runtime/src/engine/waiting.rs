//! Waiting: a stack is tried again until it is admitted, for as long as the rules that refuse it
//! wait.
//!
//! Callers that a key has refused take turns: of a thousand that wait, one asks the store, and a
//! caller that comes while others wait goes behind them. A stack has one turn at a time, that of
//! the key that refused it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::{self, Attempted};
use super::outage::Refused;
use super::part::Part;
use super::state::Turn;
use crate::algorithm::RESERVED_WAIT;
use crate::decision::{Decision, Source};
use crate::error::RateLimitError;
use crate::real_time;
use crate::store::Health;

/// Between two looks whether another process has released a permit, in milliseconds.
const SHORTEST_PAUSE: u64 = 50;
const LONGEST_PAUSE: u64 = 250;

/// A key that may refuse an attempt: that of a part's limits, or of its permit.
#[derive(Clone, Copy)]
struct WaitedFor<'a> {
    at: usize,
    part: &'a Part,
    key: &'a [u8],
    is_permit: bool,
}

impl<'a> WaitedFor<'a> {
    fn of(stack: &'a [Part], at: usize, is_permit: bool) -> Option<Self> {
        let part = stack.get(at)?;
        let key = if is_permit {
            &*part.permit.as_ref()?.key
        } else {
            part.check().request.key()
        };
        (is_permit || part.is_limited()).then_some(Self {
            at,
            part,
            key,
            is_permit,
        })
    }

    /// How long its rule waits; zero for not at all.
    fn wait(&self) -> Duration {
        wait_of(self.part)
    }

    fn is(&self, other: &Self) -> bool {
        (self.at, self.is_permit) == (other.at, other.is_permit)
    }
}

fn wait_of(part: &Part) -> Duration {
    let check = part.check();
    if check.waits() {
        check.terms.wait
    } else {
        Duration::ZERO
    }
}

/// Asks for a stack, and again for as long as the rules that refuse it wait.
pub(super) async fn acquire(stack: &Arc<[Part]>) -> Attempted {
    match stack.iter().position(|part| !wait_of(part).is_zero()) {
        None => attempt::run(stack, None).await.0,
        Some(first) => Box::pin(acquire_in_turn(stack, first)).await,
    }
}

async fn acquire_in_turn(stack: &Arc<[Part]>, first: usize) -> Attempted {
    if let Err(why) = real_time::can_wait() {
        let error = RateLimitError::misconfigured(format!("`wait` cannot be kept here: {why}"));
        return Err(Refused { by: first, error });
    }
    let start = Instant::now();
    let mut turn: Option<(WaitedFor<'_>, Turn)> = None;
    let mut refused: Option<(Decision, Instant)> = None;
    let (mut retry_at, mut has_asked_for_permit) = (start, false);
    // A caller that comes while others wait is behind them.
    let keys = (0..stack.len())
        .flat_map(|at| [false, true].map(|is_permit| WaitedFor::of(stack, at, is_permit)));
    let mut next = keys
        .flatten()
        .find(|key| !key.wait().is_zero() && key.part.engine.turns.are_waited_for(key.key));
    loop {
        if let Some(key) = next {
            // The turn of another key is given up first, so that no caller waits for one key while
            // it keeps the turn of another.
            let kept = turn.take().filter(|(of, _)| of.is(&key));
            let kept = kept.map(|(_, turn)| turn);
            let joined = kept.or_else(|| key.part.engine.turns.join(key.key));
            let Some(mut joined) = joined else {
                return out_of_time(stack, &key, refused).await;
            };
            let until = start + key.wait();
            let comes_in_time = joined.wait(retry_at, until, key.is_permit).await;
            turn = Some((key, joined));
            if !comes_in_time {
                return out_of_time(stack, &key, refused).await;
            }
        }
        let (of, own) = turn.take().unzip();
        if let Some(own) = &own {
            own.begin(longest_attempt(stack));
        }
        let (outcome, own) = attempt::run(stack, own).await;
        turn = of.zip(own);
        let (by, refusal) = match outcome {
            Err(Refused {
                by,
                error: RateLimitError::Exceeded(refusal),
            }) => (by, refusal),
            outcome => return outcome,
        };
        let now = Instant::now();
        let is_permit = refusal.is_in_flight_limit();
        next = WaitedFor::of(stack, by, is_permit);
        debug_assert!(next.is_some(), "limits or a permit of a part refuse");
        let retry = next.and_then(|key| {
            let until = start + key.wait();
            if !is_permit {
                return Some(now + refusal.retry_after()?)
                    .filter(|retry| !key.wait().is_zero() && *retry <= until);
            }
            // In a memory of this process a permit may have been released before this caller had
            // the turn, when no caller was woken: so the first time it asks at once. The last
            // attempt is made when the time is up.
            let is_first =
                !std::mem::replace(&mut has_asked_for_permit, true) && key.part.engine.in_memory;
            (now < until).then(|| until.min(now + if is_first { Duration::ZERO } else { pause() }))
        });
        match retry {
            Some(retry) => (retry_at, refused) = (retry, Some((refusal, now))),
            None => return Err(Refused::new(by, refusal)),
        }
    }
}

/// How long an attempt takes at most: the longest timeout of its parts.
fn longest_attempt(stack: &[Part]) -> Duration {
    let now = std::time::Instant::now();
    let ends = stack.iter().map(|part| part.time(now).end);
    ends.fold(now, Ord::max) - now
}

/// How long to pause before a permit is asked for again.
fn pause() -> Duration {
    let spread = RandomState::new().hash_one(0) % (LONGEST_PAUSE - SHORTEST_PAUSE + 1);
    Duration::from_millis(SHORTEST_PAUSE + spread)
}

/// The answer to a caller whose time was up before its turn, or for which there was no room to
/// wait. Nobody is asked: a slot that is free now belongs to the first in the queue, and all
/// callers that give up at this moment would ask at once.
async fn out_of_time(
    stack: &Arc<[Part]>,
    key: &WaitedFor<'_>,
    refused: Option<(Decision, Instant)>,
) -> Attempted {
    let (by, part, engine) = (key.at, key.part, &key.part.engine);
    let check = part.check();
    let refusal = |error| Refused { by, error };
    part.may_be_asked().map_err(refusal)?;
    if engine.store.innermost().health(&check.request) != Health::Up {
        // There are no slots to wait for: the policy answers.
        return attempt::run(stack, None).await.0;
    }
    if let Some(permit) = part.permit.as_ref().filter(|_| key.is_permit) {
        return Err(Refused::new(by, permit.refused(Source::Store)));
    }
    let now = Instant::now();
    let known = || engine.store.innermost().known_refusal(&check.request);
    let refusal = match (refused, known) {
        (Some((refusal, then)), _) => refusal.aged(now.saturating_duration_since(then)),
        (None, known) => known().map_or_else(
            || check.unasked(RESERVED_WAIT),
            |verdict| check.decision(&verdict),
        ),
    };
    // A slot may be free already, but not for this caller.
    let first = engine.turns.front(key.key);
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

//! Waiting for a slot instead of refusing at once.
//!
//! Callers who wait for one key stand in line, first come, first served, and only the first of them asks the store, at
//! the moment that the last refusal named: a thousand waiters are one question, not a thousand. A caller who comes
//! while others wait goes to the end of the line. Each waits no longer than it was told to, and one that is dropped
//! leaves its place to the next.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::check::Check;
use crate::consult;
use crate::decision::Decision;
use crate::error::RateLimitError;

/// How many callers of one limiter may wait; further ones are refused at once.
const MAX_WAITERS: usize = 10_000;

/// The lines of one limiter, one per key that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashMap<Box<[u8]>, Arc<Line>>>,
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Line {
    /// Held by the first in line; tokio's mutex is fair.
    turn: tokio::sync::Mutex<()>,
    /// How many stand in it. Changed under the lock of the lines.
    len: AtomicUsize,
    /// The last refusal of the first in line, and when.
    refused: Mutex<Option<(Decision, Instant)>>,
}

impl Lines {
    /// Asks until it is admitted, or until waiting longer than the limit that refuses allows would be needed. The line
    /// is that of the first check.
    pub(crate) async fn wait(&self, checks: &[&Check], patience: Duration) -> Result<Vec<Decision>, RateLimitError> {
        let start = Instant::now();
        let line: Box<[u8]> = checks.first().map(|check| check.key()).unwrap_or_default().into();
        let mut refused = None;
        if !self.has(&line) {
            match consult::all(checks).await {
                Err(RateLimitError::Exceeded(refusal)) if worth_waiting(checks, &refusal, start) => {
                    refused = Some((refusal, Instant::now()));
                }
                answer => return answer,
            }
        }
        let Some(place) = self.join(line) else { return consult::all(checks).await };
        let Ok(_turn) = tokio::time::timeout_at(start + patience, place.line.turn.lock()).await else {
            // Not asked: a slot that comes free now belongs to the first in line, and all who give up at this moment
            // would ask at once.
            return Err(match place.line.refused().or(refused) {
                Some((refusal, then)) => RateLimitError::Exceeded(aged(refusal, then.elapsed())),
                None => consult::refusal_in_line(checks).await,
            });
        };
        loop {
            match consult::all(checks).await {
                Err(RateLimitError::Exceeded(refusal)) if worth_waiting(checks, &refusal, start) => {
                    place.line.note(refusal);
                    tokio::time::sleep(refusal.retry_after()).await;
                }
                answer => return answer,
            }
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
            && self.lines.lock().unwrap_or_else(PoisonError::into_inner).contains_key(key)
    }

    fn join(&self, key: Box<[u8]>) -> Option<Place<'_>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if self.waiting.load(Ordering::Relaxed) >= MAX_WAITERS {
            return None;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let line = Arc::clone(lines.entry(key.clone()).or_default());
        line.len.fetch_add(1, Ordering::Relaxed);
        Some(Place { lines: self, key, line })
    }
}

impl Line {
    /// Keeps what the first in line was told, for those who give up.
    fn note(&self, refusal: Decision) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some((refusal, Instant::now()));
    }

    fn refused(&self) -> Option<(Decision, Instant)> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the limit that refuses has the patience to wait as long as it says.
fn worth_waiting(checks: &[&Check], refusal: &Decision, start: Instant) -> bool {
    let refusing = checks.iter().find(|check| check.name == refusal.rule());
    refusing.is_some_and(|check| Instant::now() + refusal.retry_after() <= start + check.patience)
}

/// A refusal as it reads `elapsed` later, to a caller whose turn has not come.
fn aged(refusal: Decision, elapsed: Duration) -> Decision {
    let elapsed = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    Decision {
        retry_after_us: refusal.retry_after_us.saturating_sub(elapsed).max(1_000),
        reset_after_us: refusal.reset_after_us.saturating_sub(elapsed),
        ..refusal
    }
}

/// A place in a line; the last to leave takes the line along.
struct Place<'a> {
    lines: &'a Lines,
    key: Box<[u8]>,
    line: Arc<Line>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.lines.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.line.len.fetch_sub(1, Ordering::Relaxed) == 1 {
            lines.remove(&self.key);
        }
    }
}

//! [`Fallback`]: the memory of this process, in which limits go on while the store gives no answer.
//!
//! The limits are the same and the memory is bounded. What is charged there is unknown to the
//! store, and expires by itself; a block that was set there, by a rule or by hand, goes on refusing
//! in this process once the store is back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;

use crate::engine::check::Check;
use crate::error::{RateLimitError, StoreError};
use crate::store::memory::MemoryStore;
use crate::store::{Answer, BuiltInStore as _, Request, Store as _, Verdict};

/// The memory of one limiter, made when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    memory: OnceCell<Memory>,
}

#[derive(Debug)]
struct Memory {
    store: MemoryStore,
    since: Instant,
    /// When the last block that was set here ends, in milliseconds after `since`.
    blocked_until_ms: AtomicU64,
}

impl Fallback {
    pub(in crate::engine) fn acquire(&self, request: Request<'_>) -> Result<Verdict, RateLimitError> {
        let memory = self.memory();
        let verdict = known(memory.store.acquire(request))?;
        memory.note(&verdict);
        Ok(verdict)
    }

    pub(in crate::engine) fn acquire_all(&self, requests: &[Request<'_>]) -> Result<Vec<Verdict>, RateLimitError> {
        let memory = self.memory();
        let verdicts = known(memory.store.acquire_all(requests))?;
        for verdict in &verdicts {
            memory.note(verdict);
        }
        Ok(verdicts)
    }

    pub(in crate::engine) fn peek(&self, request: Request<'_>) -> Result<Verdict, RateLimitError> {
        Ok(known(self.memory().store.peek(request))?)
    }

    /// Whether it may hold blocks.
    #[inline]
    pub(in crate::engine) fn is_in_use(&self) -> bool {
        self.memory.get().is_some()
    }

    /// The refusal of a key that was blocked here while the store did not answer.
    pub(in crate::engine) fn blocked(&self, check: &Check<'_>) -> Option<Verdict> {
        let memory = self.memory.get()?;
        memory.blocked(check)
    }

    /// Forgets the key here as well.
    pub(crate) fn reset(&self, request: Request<'_>) -> bool {
        self.memory.get().is_some_and(|memory| known(memory.store.reset(request)).unwrap_or(false))
    }

    /// Blocks the key in this process; where the memory has no room for that, it does not.
    pub(crate) fn block(&self, request: Request<'_>, duration: Duration) {
        let memory = self.memory();
        if known(memory.store.block(request, duration)).is_ok() {
            memory.note_block(duration);
        }
    }

    /// Ends a block that was set here.
    pub(crate) fn unblock(&self, request: Request<'_>) -> bool {
        self.memory.get().is_some_and(|memory| known(memory.store.unblock(request)).unwrap_or(false))
    }

    pub(in crate::engine) fn store(&self) -> &MemoryStore {
        &self.memory().store
    }

    fn memory(&self) -> &Memory {
        self.memory.get_or_init(|| Memory {
            store: MemoryStore::new(),
            since: Instant::now(),
            blocked_until_ms: AtomicU64::new(0),
        })
    }
}

impl Memory {
    fn blocked(&self, check: &Check<'_>) -> Option<Verdict> {
        if check.shadow || !self.has_blocks() {
            return None;
        }
        known(self.store.peek(check.request)).ok().filter(|verdict| verdict.blocked)
    }

    fn note(&self, verdict: &Verdict) {
        if let Some(retry_after) = verdict.retry_after().filter(|_| verdict.blocked) {
            self.note_block(retry_after);
        }
    }

    fn note_block(&self, duration: Duration) {
        let until = self.since.elapsed() + duration + Duration::from_millis(1);
        self.blocked_until_ms.fetch_max(millis(until), Ordering::Relaxed);
    }

    fn has_blocks(&self) -> bool {
        let until = self.blocked_until_ms.load(Ordering::Relaxed);
        until > 0 && millis(self.since.elapsed()) < until
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Memory answers at once.
fn known<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    answer.known().unwrap_or_else(|_| Err(StoreError::unavailable("the memory of this process did not answer at once")))
}

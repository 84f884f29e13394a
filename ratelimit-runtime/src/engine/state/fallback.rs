//! [`Fallback`]: the memory of this process, where limits continue while the store gives no answer.
//!
//! Limits are not changed, and the memory is bounded. The store never learns of charges in it,
//! which expire by themselves. A block that was set there, by a rule or by hand, still refuses in
//! this process once the store is back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;

use crate::engine::check::Check;
use crate::store::memory::MemoryStore;
use crate::store::{Answer, Request, Store, Verdict};

/// [`Store::reset`] or [`Store::unblock`].
pub(crate) type Forget = for<'a> fn(&'a (dyn Store + 'static), Request<'a>) -> Answer<'a, bool>;

/// The fallback memory of one limiter, created when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    memory: OnceCell<MemoryStore>,
    /// `true` once a key was blocked here: until then no check looks for a block.
    has_blocked: AtomicBool,
}

impl Fallback {
    pub(in crate::engine) fn acquire_all(&self, requests: &[Request<'_>]) -> Vec<Verdict> {
        let verdicts = self.store().decide_all(requests);
        if verdicts.iter().any(|verdict| verdict.blocked) {
            self.has_blocked.store(true, Ordering::Relaxed);
        }
        verdicts
    }

    pub(in crate::engine) fn peek(&self, request: &Request<'_>) -> Verdict {
        self.store().peek_now(request)
    }

    /// `true` if the memory may hold blocks.
    #[inline]
    pub(in crate::engine) fn may_block(&self) -> bool {
        self.has_blocked.load(Ordering::Relaxed)
    }

    /// The refusal of a key that was blocked here while the store gave no answer.
    pub(in crate::engine) fn blocked(&self, check: &Check<'_>) -> Option<Verdict> {
        if !self.may_block() || check.shadow {
            return None;
        }
        Some(self.peek(&check.request)).filter(|verdict| verdict.blocked)
    }

    /// Lets this memory forget something of a key, as the store does: `true` if there was anything.
    pub(crate) fn forget(&self, forget: Forget, request: Request<'_>) -> bool {
        let Some(memory) = self.memory.get() else {
            return false;
        };
        let forgotten = forget(memory, request).known();
        debug_assert!(
            matches!(forgotten, Ok(Ok(_))),
            "memory answers at once, and does not fail to forget"
        );
        matches!(forgotten, Ok(Ok(true)))
    }

    /// Blocks the key in this process, unless the memory has no room for that.
    pub(crate) fn block(&self, request: Request<'_>, duration: Duration) {
        let is_blocked = matches!(self.store().block(request, duration).known(), Ok(Ok(())));
        self.has_blocked.fetch_or(is_blocked, Ordering::Relaxed);
    }

    pub(in crate::engine) fn store(&self) -> &MemoryStore {
        self.memory.get_or_init(MemoryStore::new)
    }
}

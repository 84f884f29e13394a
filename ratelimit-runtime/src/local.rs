//! `on_unavailable = "local"`: limits that go on in this process while the store does not answer.
//!
//! The limits are the same and the memory is bounded. What is charged here is unknown to the store, and forgotten by
//! itself.

use once_cell::sync::OnceCell;

use crate::check::Check;
use crate::error::{RateLimitError, StoreError};
use crate::limiter::Inner;
use crate::store::memory::MemoryStore;
use crate::store::{Request, Store, Verdict};

/// The memory of one limiter, made when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Local {
    store: OnceCell<MemoryStore>,
}

/// Marks a ticket of the local memory. Stores count below 2⁵³.
const LOCAL: u64 = 1 << 63;

impl Local {
    pub(crate) fn acquire(&self, check: &Check) -> Result<Verdict, RateLimitError> {
        Ok(marked(known(self.store().acquire(check.request()?))?))
    }

    pub(crate) fn acquire_all(&self, requests: &[Request<'_>]) -> Result<Vec<Verdict>, RateLimitError> {
        Ok(known(self.store().acquire_all(requests))?.into_iter().map(marked).collect())
    }

    pub(crate) fn peek(&self, check: &Check) -> Result<Verdict, RateLimitError> {
        Ok(known(self.store().peek(check.request()?))?)
    }

    pub(crate) fn reset(&self, check: &Check) {
        if let (Some(store), Ok(request)) = (self.store.get(), check.any_request()) {
            drop(store.reset(request));
        }
    }

    fn store(&self) -> &MemoryStore {
        self.store.get_or_init(MemoryStore::new)
    }
}

/// The store that gave a ticket, and the ticket as that store knows it.
pub(crate) fn keeper_of(inner: &Inner, ticket: u64) -> (&dyn Store, u64) {
    if ticket & LOCAL == 0 { (&*inner.store, ticket) } else { (inner.local.store(), ticket & !LOCAL) }
}

fn marked(verdict: Verdict) -> Verdict {
    let ticket = if verdict.ticket == 0 { 0 } else { verdict.ticket | LOCAL };
    verdict.with_ticket(ticket)
}

/// Memory answers at once.
fn known<T>(answer: crate::store::Answer<'_, T>) -> Result<T, StoreError> {
    answer.known().unwrap_or_else(|_| Err(StoreError::unavailable("the local memory did not answer at once")))
}

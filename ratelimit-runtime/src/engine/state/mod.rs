//! [`Engine`]: everything that answers checks.

mod counts;
mod fallback;
mod policies;
mod registry;
mod settlements;
mod turns;

use std::any::TypeId;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

pub(in crate::engine) use self::counts::PermitCounts;
use self::fallback::Fallback;
pub(in crate::engine) use self::policies::{PolicySet, waits_in_vain};
use self::registry::Registry;
use self::settlements::Settlements;
pub(in crate::engine) use self::turns::Turn;
use self::turns::Turns;
use super::check::Check;
use crate::error::{RateLimitError, StoreError};
use crate::key::KeyHasher;
use crate::observe;
use crate::rule::OnUnavailable;
use crate::store::memory::MemoryStore;
use crate::store::{Capabilities, Request, Store};

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

/// The state that the clones of one limiter share.
pub(crate) struct Engine {
    pub(crate) id: u64,
    pub(crate) store: Box<dyn Store>,
    /// Whether the store is one in memory that only this limiter has.
    pub(crate) in_memory: bool,
    /// The capabilities of the store, which do not change.
    pub(in crate::engine) capabilities: Capabilities,
    /// The prefix of every key, with its colon; or empty.
    pub(crate) prefix: Box<str>,
    pub(crate) timeout: Duration,
    pub(crate) on_unavailable: OnUnavailable,
    pub(crate) key_hasher: Option<KeyHasher>,
    pub(crate) policies: ArcSwap<PolicySet>,
    pub(in crate::engine) registry: Registry,
    pub(in crate::engine) turns: Turns,
    pub(in crate::engine) permits: PermitCounts,
    pub(in crate::engine) settlements: Settlements,
    pub(crate) fallback: Fallback,
    #[cfg(feature = "http")]
    pub(crate) responses: crate::response::Responses,
    #[cfg(feature = "http")]
    pub(crate) trusted_proxies: crate::client_ip::TrustedProxies,
}

impl Engine {
    /// An engine on a store of its own.
    pub(crate) fn on<S: Store>(store: S) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        observe::describe();
        Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            in_memory: is_in_memory::<S>(),
            capabilities: store.capabilities(),
            store: Box::new(store),
            prefix: Box::default(),
            timeout: DEFAULT_TIMEOUT,
            on_unavailable: OnUnavailable::default(),
            key_hasher: None,
            policies: ArcSwap::default(),
            registry: Registry::default(),
            turns: Turns::default(),
            permits: PermitCounts::default(),
            settlements: Settlements::default(),
            fallback: Fallback::default(),
            #[cfg(feature = "http")]
            responses: crate::response::Responses::default(),
            #[cfg(feature = "http")]
            trusted_proxies: crate::client_ip::TrustedProxies::default(),
        }
    }

    /// The same on another store, before it has been asked.
    pub(crate) fn with_store<S: Store>(self, store: S) -> Self {
        let (in_memory, capabilities) = (is_in_memory::<S>(), store.capabilities());
        Self {
            in_memory,
            capabilities,
            store: Box::new(store),
            ..self
        }
    }

    /// Whether the check is sound, and the store declares what it needs.
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost more than it does"
    )]
    #[inline(always)]
    pub(in crate::engine) fn can_be_asked(&self, check: &Check<'_>) -> bool {
        check.is_sound() && (check.is_supported || self.supports(&check.request))
    }

    /// Why it cannot be asked.
    #[cold]
    pub(in crate::engine) fn problem(&self, check: &Check<'_>) -> RateLimitError {
        match check.is_sound().then(|| self.supported(&check.request)) {
            Some(Err(error)) => error.into(),
            _ => check.problem(),
        }
    }

    /// Whether the store declares what the request needs.
    #[inline]
    pub(in crate::engine) fn supports(&self, request: &Request<'_>) -> bool {
        self.capabilities.supports(request).is_ok()
    }

    /// The same of the store that decides, whose error says more of what is missing.
    #[cold]
    pub(crate) fn supported(&self, request: &Request<'_>) -> Result<(), StoreError> {
        self.store.innermost().supports(request)?;
        self.capabilities.supports(request)
    }
}

/// Whether the store keeps counts in memory, and is not shared.
fn is_in_memory<S: Store>() -> bool {
    TypeId::of::<S>() == TypeId::of::<MemoryStore>()
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

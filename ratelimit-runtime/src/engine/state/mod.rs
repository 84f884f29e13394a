//! [`Engine`]: the state of a limiter, which its clones share: the store, settings, policies, bound
//! rules, and who waits.

mod counts;
mod fallback;
mod policies;
mod registry;
mod settlements;
mod summaries;
mod turns;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(in crate::engine) use self::counts::PermitCounts;
use self::fallback::Fallback;
pub(super) use self::fallback::Forget;
use self::registry::Registry;
pub(super) use self::settlements::Settlements;
use self::summaries::Summaries;
use self::turns::Turns;
pub(in crate::engine) use self::turns::{QueueKey, Turn};
use crate::error::StoreError;
use crate::key::KeyHasher;
use crate::observe;
use crate::rule::{OnUnavailable, Terms};
use crate::store::memory::MemoryStore;
use crate::store::{BuiltInStore as _, Capabilities, Request, Reserves, Store};

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

/// The state that the clones of one limiter share.
pub(crate) struct Engine {
    pub(crate) id: u64,
    pub(crate) store: Box<dyn Store>,
    /// `true` if the store is a memory that only this limiter has.
    pub(crate) in_memory: bool,
    /// The capabilities of the store, which do not change.
    pub(crate) capabilities: Capabilities,
    /// The prefix of every key, with its colon, or empty.
    pub(crate) prefix: Box<str>,
    pub(crate) timeout: Duration,
    pub(crate) on_unavailable: OnUnavailable,
    pub(crate) key_hasher: Option<KeyHasher>,
    pub(crate) registry: Registry,
    pub(in crate::engine) turns: Arc<Turns>,
    pub(in crate::engine) permits: PermitCounts,
    pub(in crate::engine) settlements: Settlements,
    pub(crate) summaries: Summaries,
    pub(crate) fallback: Fallback,
    #[cfg(feature = "http")]
    pub(crate) responses: Arc<crate::response::Responses>,
    #[cfg(feature = "http")]
    pub(crate) trusted_proxies: crate::client_ip::TrustedProxies,
}

impl Engine {
    /// An engine with `store` and default settings.
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
            registry: Registry::default(),
            turns: Arc::default(),
            permits: PermitCounts::default(),
            settlements: Settlements::default(),
            summaries: Summaries::default(),
            fallback: Fallback::default(),
            #[cfg(feature = "http")]
            responses: Arc::default(),
            #[cfg(feature = "http")]
            trusted_proxies: crate::client_ip::TrustedProxies::default(),
        }
    }

    /// The engine with another store, before the first check.
    pub(crate) fn with_store<S: Store>(self, store: S) -> Self {
        let (in_memory, capabilities) = (is_in_memory::<S>(), store.capabilities());
        Self {
            in_memory,
            capabilities,
            store: Box::new(store),
            ..self
        }
    }

    /// The name for operators: `memory`, the server's as in metrics, or `custom`.
    pub(crate) fn store_name(&self) -> &str {
        match self.store.server() {
            "" if self.in_memory => "memory",
            "" => "custom",
            server => server,
        }
    }

    /// `Ok` if the store keeps limits by these terms, for calls that reserve like this.
    pub(crate) fn supports(&self, terms: &Terms, reserves: Reserves) -> Result<(), StoreError> {
        let request = Request {
            reserves,
            ..Request::by(terms)
        };
        self.store.supports(&request)?;
        self.capabilities.supports(&request)
    }
}

/// `true` if the store is a memory that is not shared.
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

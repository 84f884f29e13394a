//! [`Clients`]: the [`Client`] of each tokio runtime that uses a store.
//!
//! Nothing of one is shared with another runtime. When a runtime ends, the tasks of its client end
//! with it, and the store forgets it.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::runtime::{Handle, Id};

use super::permits::Permits;
use super::servers::Servers;
use super::settings::StoreSettings;
use crate::error::StoreError;

/// Servers and open permits of one runtime.
pub(super) struct Client {
    runtime: Id,
    pub(super) servers: Arc<Servers>,
    pub(super) permits: Permits,
}

/// The clients of a store. There are few: a process has one runtime, with actix-web one for each
/// worker.
#[derive(Default)]
pub(super) struct Clients {
    all: RwLock<Vec<Arc<Client>>>,
}

impl Clients {
    /// The client of this runtime, which is made at the first call. Those of runtimes that have
    /// ended are forgotten then.
    ///
    /// # Errors
    ///
    /// `Misconfigured` outside of a tokio runtime.
    pub(super) fn current(&self, settings: &StoreSettings) -> Result<Arc<Client>, StoreError> {
        let runtime = Handle::try_current().map_err(|_| {
            StoreError::misconfigured(
                "a `RedisStore` is used outside of a tokio runtime: call it from async code of one",
            )
        })?;
        let is_own = |client: &&Arc<Client>| client.runtime == runtime.id() && client.permits.has_runtime();
        if let Some(client) = self.all.read().unwrap_or_else(PoisonError::into_inner).iter().find(is_own) {
            return Ok(Arc::clone(client));
        }
        // Another thread of the runtime may be first: one connection is enough.
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = all.iter().find(is_own) {
            return Ok(Arc::clone(client));
        }
        let servers = Arc::new(Servers::start(settings, &runtime));
        let permits = Permits::start(Arc::clone(&servers), settings.clock.clone(), &runtime);
        let client = Arc::new(Client { runtime: runtime.id(), servers, permits });
        all.retain(|client| client.permits.has_runtime());
        all.push(Arc::clone(&client));
        Ok(client)
    }

    /// The client of this runtime, if there is one.
    pub(super) fn own(&self) -> Option<Arc<Client>> {
        let runtime = Handle::try_current().ok()?.id();
        self.all().into_iter().find(|client| client.runtime == runtime)
    }

    /// All of runtimes that have not ended.
    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|client| client.permits.has_runtime()).cloned().collect()
    }
}

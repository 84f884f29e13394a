//! [`Clients`]: the [`Client`] of each tokio runtime that uses a store.
//!
//! Runtimes share no client. When a runtime ends, the tasks of its client end with it, and the
//! store forgets that client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
pub(super) struct Clients(Mutex<Vec<Arc<Client>>>);

impl Client {
    fn is_of(&self, runtime: Id) -> bool {
        self.runtime == runtime && self.permits.has_runtime()
    }
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        let mut all = self.lock();
        if let Some(client) = all.iter().find(|client| client.is_of(runtime.id())) {
            return Ok(Arc::clone(client));
        }
        let servers = Arc::new(Servers::start(settings, &runtime));
        let permits = Permits::start(Arc::clone(&servers), settings.clock.clone(), &runtime);
        let client = Arc::new(Client {
            runtime: runtime.id(),
            servers,
            permits,
        });
        all.retain(|client| client.permits.has_runtime());
        all.push(Arc::clone(&client));
        Ok(client)
    }

    /// The client of this runtime, if there is one.
    pub(super) fn own(&self) -> Option<Arc<Client>> {
        let runtime = Handle::try_current().ok()?.id();
        self.lock()
            .iter()
            .find(|client| client.is_of(runtime))
            .cloned()
    }

    /// All of runtimes that have not ended.
    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        self.lock()
            .iter()
            .filter(|client| client.permits.has_runtime())
            .cloned()
            .collect()
    }
}

//! [`Clients`]: the [`Client`] of each tokio runtime that uses a store.
//!
//! Runtimes share no client. When a runtime ends, the tasks of its client end with it, and the
//! store drops that client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::task::JoinSet;

use super::permits::{MAX_CARRIED, Permits};
use super::rules::{self, RuleBook};
use super::servers::Servers;
use super::settings::StoreSettings;
use crate::error::StoreError;
use crate::pace;

/// The servers and open permits of one runtime.
pub(super) struct Client {
    runtime: Id,
    pub(super) servers: Arc<Servers>,
    pub(super) permits: Permits,
    /// The task that writes the rules of the store, which ends with the client.
    _rules: JoinSet<()>,
}

/// The clients of a store. They are few: a process has one runtime, with actix-web one per worker.
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

    /// The client of the current runtime, which is made at the first call. Clients of runtimes that
    /// have ended are dropped then.
    ///
    /// # Errors
    ///
    /// `Misconfigured` outside a tokio runtime, or on one without timers.
    pub(super) fn current(
        &self,
        settings: &StoreSettings,
        book: &Arc<RuleBook>,
    ) -> Result<Arc<Client>, StoreError> {
        let runtime = pace::runtime().map_err(|why| {
            StoreError::misconfigured(format!("a `RedisStore` cannot be used here: {why}"))
        })?;
        let mut all = self.lock();
        if let Some(client) = all.iter().find(|client| client.is_of(runtime.id())) {
            return Ok(Arc::clone(client));
        }
        let servers = Arc::new(Servers::start(settings, &runtime));
        let permits = Permits::start(Arc::clone(&servers), settings.clock.clone(), &runtime);
        let mut writer = JoinSet::new();
        writer.spawn_on(rules::run(Arc::clone(book), Arc::clone(&servers)), &runtime);
        let client = Arc::new(Client {
            _rules: writer,
            runtime: runtime.id(),
            servers,
            permits,
        });
        all.retain(|client| client.permits.has_runtime());
        all.push(Arc::clone(&client));
        Ok(client)
    }

    /// The client of the current runtime, if it has one.
    pub(super) fn own(&self) -> Option<Arc<Client>> {
        let runtime = Handle::try_current().ok()?.id();
        self.lock()
            .iter()
            .find(|client| client.is_of(runtime))
            .cloned()
    }

    /// The permits of a key that clients have still to release, as many as one call may carry:
    /// where a runtime is busy or at rest, another one need not wait for it.
    pub(super) fn releases_of(&self, key: &Arc<[u8]>) -> Vec<String> {
        let all = self.lock();
        let releases = all
            .iter()
            .flat_map(|client| client.permits.releases_of(key));
        releases.take(MAX_CARRIED).collect()
    }

    /// The clients of all runtimes that have not ended.
    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        self.lock()
            .iter()
            .filter(|client| client.permits.has_runtime())
            .cloned()
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use tokio::runtime::Runtime;

    use crate::RedisStore;

    #[test]
    fn the_clients_of_runtimes_that_have_ended_are_dropped() {
        let store = RedisStore::new("redis://127.0.0.1:1").unwrap();
        for _ in 0..3 {
            let runtime = Runtime::new().unwrap();
            assert!(
                runtime.block_on(async {
                    store.clients.current(&store.settings, &store.rules).is_ok()
                })
            );
        }
        assert_eq!(store.clients.lock().len(), 1);
    }
}

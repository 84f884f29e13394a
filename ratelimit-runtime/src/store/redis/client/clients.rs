//! [`Clients`]: the client of each tokio runtime that uses a store.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::Client;
use crate::error::StoreError;

/// The clients of a store, by their runtimes. There are few: a process has one runtime, with
/// actix-web one for each worker.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: ArcSwap<Vec<Arc<Entry>>>,
    /// Held while a client is made.
    starting: Mutex<()>,
}

#[derive(Debug)]
struct Entry {
    runtime: Id,
    client: Arc<Client>,
    /// Does nothing, and ends with the runtime.
    task: AbortHandle,
}

impl Clients {
    /// The client of this runtime, which `start` makes at the first call. Those of runtimes that
    /// have ended are forgotten then.
    ///
    /// # Errors
    ///
    /// `Misconfigured` outside of a tokio runtime.
    pub(crate) fn current(&self, start: impl FnOnce(&Handle) -> Client) -> Result<Arc<Client>, StoreError> {
        let runtime = Handle::try_current().map_err(|_| {
            StoreError::misconfigured(
                "a `RedisStore` is used outside of a tokio runtime: call it from async code of one",
            )
        })?;
        if let Some(client) = self.known(runtime.id()) {
            return Ok(client);
        }
        // Another thread of the runtime may be first: one connection is enough.
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = self.known(runtime.id()) {
            return Ok(client);
        }
        let (client, task) = (Arc::new(start(&runtime)), runtime.spawn(pending::<()>()).abort_handle());
        let entry = Arc::new(Entry { runtime: runtime.id(), client: Arc::clone(&client), task });
        let all = self.all.load();
        self.all.store(Arc::new(all.iter().filter(|entry| entry.is_alive()).chain([&entry]).cloned().collect()));
        Ok(client)
    }

    /// The client of a runtime, if it has one.
    pub(crate) fn known(&self, id: Id) -> Option<Arc<Client>> {
        let all = self.all.load();
        let entry = all.iter().find(|entry| entry.runtime == id && entry.is_alive())?;
        Some(Arc::clone(&entry.client))
    }

    /// The client of this runtime, if there is one, else any other: for what is asked without
    /// waiting, also where there is no runtime.
    pub(crate) fn any(&self) -> Option<Arc<Client>> {
        let own = Handle::try_current().ok().and_then(|runtime| self.known(runtime.id()));
        own.or_else(|| self.all().into_iter().next())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        let all = self.all.load();
        all.iter().filter(|entry| entry.is_alive()).map(|entry| Arc::clone(&entry.client)).collect()
    }
}

impl Entry {
    fn is_alive(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

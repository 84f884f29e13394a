//! [`Clients`]: the client of each tokio runtime that uses a store.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::Client;
use crate::error::StoreError;

/// The clients of a store, by their runtimes. There are few: a process has one runtime, with
/// actix-web one for each worker.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: Arc<All>,
    /// Held while a client is made.
    starting: Mutex<()>,
}

type All = ArcSwap<Vec<Arc<Entry>>>;

#[derive(Debug)]
struct Entry {
    runtime: Id,
    client: Arc<Client>,
    /// Forgets the entry when the runtime ends.
    task: AbortHandle,
}

impl Clients {
    /// The client of this runtime, which `start` makes at the first call.
    ///
    /// # Errors
    ///
    /// `Misconfigured` outside of a tokio runtime, and what `start` says.
    pub(crate) fn current(
        &self,
        start: impl FnOnce(&Handle) -> Result<Client, StoreError>,
    ) -> Result<Arc<Client>, StoreError> {
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
        let client = Arc::new(start(&runtime)?);
        let entry = Arc::new_cyclic(|entry| {
            let forget = ForgetOnDrop { all: Arc::downgrade(&self.all), entry: Weak::clone(entry) };
            let task = runtime.spawn(async move {
                let _until_the_runtime_ends = forget;
                pending::<()>().await;
            });
            Entry { runtime: runtime.id(), client: Arc::clone(&client), task: task.abort_handle() }
        });
        self.all.rcu(|all| all.iter().chain([&entry]).cloned().collect::<Vec<_>>());
        Ok(client)
    }

    /// The client of a runtime, if it has one.
    pub(crate) fn known(&self, id: Id) -> Option<Arc<Client>> {
        let all = self.all.load();
        all.iter().find(|entry| entry.runtime == id).map(|entry| Arc::clone(&entry.client))
    }

    /// The client of this runtime, if there is one, else any other: for what is asked without
    /// waiting, also where there is no runtime.
    pub(crate) fn any(&self) -> Option<Arc<Client>> {
        let own = Handle::try_current().ok().and_then(|runtime| self.known(runtime.id()));
        own.or_else(|| self.all.load().first().map(|entry| Arc::clone(&entry.client)))
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.all.load().iter().map(|entry| Arc::clone(&entry.client)).collect()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Forgets the client of a runtime, when that drops its tasks.
struct ForgetOnDrop {
    all: Weak<All>,
    entry: Weak<Entry>,
}

impl Drop for ForgetOnDrop {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            all.rcu(|all| {
                let others = all.iter().filter(|entry| !std::ptr::eq(Arc::as_ptr(entry), self.entry.as_ptr()));
                others.cloned().collect::<Vec<_>>()
            });
        }
    }
}

//! [`Client`]: all of one tokio runtime: links, batchers, slot map, sentinels and open permits;
//! which server a key goes to.
//!
//! Nothing of it is shared with another runtime. When its runtime ends, its tasks end with it, and
//! the store [forgets](clients) it.

pub(crate) mod clients;
mod pools;
mod settings;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use redis::{Cmd, Value};
use tokio::runtime::Handle;

use self::pools::Pools;
pub(crate) use self::settings::ClientSettings;
use super::batcher::{Batcher, Failure, Verdicts};
use super::cluster::{Cluster, slot_of};
use super::errors;
use super::link::{Link, Upstream};
use super::listing;
use super::permits::{Ask, Permits};
use super::scripts::Question;
use super::sentinel::Sentinels;
use super::settings::deployment::{Deployment, Kind};
use super::transactions::Pool;
use crate::error::StoreError;
use crate::store::{Health, Page};

/// All of one runtime.
pub(crate) struct Client {
    servers: Servers,
    epoch: Arc<AtomicU64>,
    pub(crate) permits: Permits,
    pools: Pools,
}

enum Servers {
    /// One server, or whichever is the master.
    One(Arc<Batcher>),
    Cluster(Cluster),
}

/// A key has no slot where there is one server.
fn no_slot(_: &[u8]) -> u16 {
    0
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotSent(error) | Failure::Lost(error) => error,
            Failure::Server(error) => errors::from_server(&error),
        }
    }
}

impl Client {
    /// Connects in the background, on this runtime.
    pub(crate) fn start(settings: &ClientSettings, runtime: &Handle) -> Self {
        let Deployment { server, kind } = settings.deployment.clone();
        let upstream: Arc<dyn Upstream> = match kind {
            Kind::Standalone => Arc::new(server),
            Kind::Sentinel { name, login, sentinels } => Arc::new(Sentinels::new(name, server, login, sentinels)),
            Kind::Cluster(seeds) => {
                let link = settings.link(Arc::new(server.clone()));
                return Self::on(Servers::Cluster(Cluster::new(seeds, server, link, runtime)), settings);
            }
        };
        let link = Arc::new(Link::start(settings.link(upstream), runtime));
        Self::on(Servers::One(Batcher::start(link, runtime, no_slot)), settings)
    }

    fn on(servers: Servers, settings: &ClientSettings) -> Self {
        let permits = Permits::new(settings.clock.clone());
        let epoch = Arc::clone(&settings.epoch);
        Self { servers, epoch, permits, pools: Pools::default() }
    }

    /// Asks a question about a key, or several on keys of one slot, which are charged all or none.
    pub(crate) async fn ask(
        &self,
        stack: &[(&[u8], Question)],
        until: Option<Instant>,
    ) -> Result<Verdicts, StoreError> {
        let key = stack.first().map_or(&[][..], |(key, _)| key);
        self.at(key, until, |batcher, asking| async move { batcher.ask(stack, until, asking).await }).await
    }

    /// Sends a command about a key, wherever that is.
    pub(crate) async fn send(&self, key: &[u8], command: &Cmd, until: Option<Instant>) -> Result<Value, StoreError> {
        self.at(key, until, |batcher, asking| async move { batcher.send(command, asking).await }).await
    }

    /// Runs transactions about a key on a pool of connections to its server.
    pub(crate) async fn transact<T, F>(
        &self,
        key: &[u8],
        until: Option<Instant>,
        run: impl Fn(Arc<Pool>, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        self.at(key, until, |batcher, asking| run(self.pools.of(batcher.link()), asking)).await
    }

    async fn at<T, F>(
        &self,
        key: &[u8],
        until: Option<Instant>,
        ask: impl Fn(Arc<Batcher>, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        match &self.servers {
            Servers::One(batcher) => ask(Arc::clone(batcher), false).await.map_err(Into::into),
            // Large, and most stores are no cluster.
            Servers::Cluster(cluster) => Box::pin(cluster.at(slot_of(key), until, ask)).await,
        }
    }

    /// A page of the stored keys that begin like this.
    pub(crate) async fn keys(&self, prefix: &[u8], from: Option<&[u8]>) -> Result<Page, StoreError> {
        match &self.servers {
            Servers::One(batcher) => listing::of_server(batcher.link(), prefix, from).await,
            Servers::Cluster(cluster) => listing::of_cluster(cluster, prefix, from).await,
        }
    }

    /// How many connections have been made, of all clients.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// How well the server of a key serves.
    pub(crate) fn health(&self, key: &[u8]) -> Health {
        match &self.servers {
            Servers::One(batcher) => batcher.link().health(),
            Servers::Cluster(cluster) => cluster.health(slot_of(key)),
        }
    }

    /// Returns once the server of a key serves, or all servers do.
    ///
    /// # Errors
    ///
    /// `Misconfigured`: then waiting is vain.
    pub(crate) async fn ready(&self, key: Option<&[u8]>) -> Result<(), StoreError> {
        match (&self.servers, key) {
            (Servers::One(batcher), _) => batcher.link().ready().await,
            (Servers::Cluster(cluster), Some(key)) => cluster.ready(Some(slot_of(key))).await,
            (Servers::Cluster(cluster), None) => cluster.ready(None).await,
        }
    }
}

/// For permits.
impl Ask for Client {
    async fn ask(&self, stack: &[(&[u8], Question)], until: Option<Instant>) -> Result<Verdicts, StoreError> {
        self.ask(stack, until).await
    }

    fn epoch(&self) -> u64 {
        self.epoch()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

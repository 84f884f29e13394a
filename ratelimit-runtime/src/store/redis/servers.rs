//! [`Servers`]: the links, batchers and slot map of one tokio runtime; which server a key goes to.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use redis::{Cmd, Value};
use tokio::runtime::Handle;

use super::batcher::{Batcher, Failure, ReplyFuture};
use super::cluster::{Cluster, slot_of};
use super::link::{Link, LinkSettings, Sentinels, Upstream};
use super::listing;
use super::scripts::{KeyQuestion, load_all};
use super::settings::StoreSettings;
use super::settings::deployment::Deployment;
use crate::error::StoreError;
use crate::store::{Health, Page};

/// The servers of a store, for one runtime.
pub(crate) struct Servers {
    reached: Reached,
    epoch: Arc<AtomicU64>,
}

enum Reached {
    /// One server, or whichever is the master.
    One(Arc<Batcher>),
    Cluster(Arc<Cluster>),
}

impl Servers {
    /// Connects in the background, on this runtime.
    pub(crate) fn start(settings: &StoreSettings, runtime: &Handle) -> Self {
        let server = settings.server.clone();
        let upstream = match &settings.deployment {
            Deployment::Standalone | Deployment::Cluster(_) => {
                Upstream::Server(Arc::new(server.clone()))
            }
            Deployment::Sentinel(names) => {
                Upstream::Sentinels(Arc::new(Sentinels::new(names.clone(), server.clone())))
            }
        };
        let link = LinkSettings {
            upstream,
            timeout_us: Arc::clone(&settings.timeout_us),
            epoch: Arc::clone(&settings.epoch),
            greeting: if settings.mode.runs_scripts() {
                load_all().into()
            } else {
                Arc::default()
            },
        };
        let reached = match &settings.deployment {
            Deployment::Cluster(seeds) => {
                Reached::Cluster(Cluster::new(seeds.clone(), server, link, runtime))
            }
            _ => Reached::One(Batcher::start(
                Arc::new(Link::start(link, runtime)),
                runtime,
                |_| 0,
            )),
        };
        Self {
            reached,
            epoch: Arc::clone(&settings.epoch),
        }
    }

    /// Asks a question about a key, or several on keys of one slot, which are charged all or none.
    pub(crate) fn ask<'a>(
        &'a self,
        stack: &'a [KeyQuestion<'a>],
        until: Option<Instant>,
    ) -> ReplyFuture<'a> {
        match &self.reached {
            Reached::One(batcher) => batcher.ask(stack, until, false),
            Reached::Cluster(cluster) => {
                debug_assert!(!stack.is_empty(), "a caller asks something");
                let slot = stack.first().map_or(0, |(key, _)| slot_of(key));
                let ask = move |batcher: Arc<Batcher>, asking| batcher.ask(stack, until, asking);
                ReplyFuture::Alone(Box::pin(
                    async move { Ok(cluster.at(slot, until, ask).await?) },
                ))
            }
        }
    }

    /// Sends a command about a key, wherever that is.
    pub(crate) async fn send(
        &self,
        key: &[u8],
        command: &Cmd,
        until: Option<Instant>,
    ) -> Result<Value, StoreError> {
        self.at(key, until, |batcher, asking| async move {
            batcher.send(command, asking).await
        })
        .await
    }

    /// Asks the server of a key, wherever that is.
    pub(crate) async fn at<T, F>(
        &self,
        key: &[u8],
        until: Option<Instant>,
        ask: impl Fn(Arc<Batcher>, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        match &self.reached {
            Reached::One(batcher) => ask(Arc::clone(batcher), false).await.map_err(Into::into),
            // Large, and most stores are no cluster.
            Reached::Cluster(cluster) => Box::pin(cluster.at(slot_of(key), until, ask)).await,
        }
    }

    /// A page of the stored keys that begin like this.
    pub(crate) async fn keys(
        &self,
        prefix: &[u8],
        from: Option<&[u8]>,
    ) -> Result<Page, StoreError> {
        match &self.reached {
            Reached::One(batcher) => listing::of_server(batcher, prefix, from).await,
            Reached::Cluster(cluster) => listing::of_cluster(cluster, prefix, from).await,
        }
    }

    /// The number of connections so far. After each new one, the server may have lost keys.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// A number by which the servers of keys differ: 0 where there is only one, or none is known.
    pub(crate) fn number_of(&self, key: &[u8]) -> usize {
        match &self.reached {
            Reached::One(_) => 0,
            Reached::Cluster(cluster) => cluster.number_of(slot_of(key)),
        }
    }

    /// How well the server of a key serves.
    pub(crate) fn health(&self, key: &[u8]) -> Health {
        match &self.reached {
            Reached::One(batcher) => batcher.link.health(),
            Reached::Cluster(cluster) => cluster.health(slot_of(key)),
        }
    }

    /// Returns once the server of a key serves, or all servers do.
    ///
    /// # Errors
    ///
    /// `Misconfigured`: then waiting is vain.
    pub(crate) async fn ready(&self, key: Option<&[u8]>) -> Result<(), StoreError> {
        match &self.reached {
            Reached::One(batcher) => batcher.link.ready().await,
            Reached::Cluster(cluster) => cluster.ready(key.map(slot_of)).await,
        }
    }
}

//! [`Servers`]: finds the server of each key, with the links, batchers and slot map of one tokio
//! runtime.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Pipeline, Value};
use smallvec::SmallVec;
use tokio::runtime::Handle;

use super::batcher::{Batcher, Failure};
use super::cluster::{Cluster, slot_of};
use super::errors::unexpected_reply;
use super::link::{Link, LinkSettings, Lost, Sentinels, greeting};
use super::listing;
use super::rights::Rights;
use super::scripts::{KeyQuestion, Question, Reply, load_all};
use super::settings::StoreSettings;
use super::settings::deployment::Deployment;
use super::settings::epochs::Epochs;
use super::settings::server::TcpAddress;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Health, Page};

/// The pause before a server whose connection has ended is asked again for the user's rights.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The servers of a store, for one runtime.
pub(crate) struct Servers {
    reached: Reached,
    /// The counts of reconnections. After each, the server may have lost keys.
    pub(crate) epochs: Epochs,
}

enum Reached {
    /// One server, or the current master.
    One(Arc<Batcher>),
    Cluster(Cluster),
}

impl Servers {
    /// The servers of a store, connecting on `runtime`.
    pub(crate) fn start(settings: &StoreSettings, runtime: &Handle) -> Self {
        let server = &settings.server;
        let sentinels = match &settings.deployment {
            Deployment::Standalone | Deployment::Cluster(_) => None,
            Deployment::Sentinel(names) => Some(Sentinels::new(names.clone(), server.clone())),
        };
        let epochs = settings.epochs.clone();
        let expire = settings.clock.as_ref().map_or("PEXPIREAT", |_| "PEXPIRE");
        let greeting = match (settings.mode.runs_scripts(), settings.is_cluster()) {
            (true, _) => Some(greeting(load_all(), expire)),
            // A node need not have the slot of a key.
            (false, true) => Some(Pipeline::new()),
            (false, false) => None,
        };
        let link = LinkSettings {
            server: Arc::new(server.clone()),
            sentinels: sentinels.map(Arc::new),
            timeout_us: Arc::clone(&settings.timeout_us),
            reconnected: Arc::new(move || epochs.begin()),
            greeting: greeting.map(Arc::new),
        };
        let reached = match &settings.deployment {
            Deployment::Cluster(seeds) => {
                // Without scripts, stored keys have a suffix.
                let of_slots = settings.mode.runs_scripts();
                let epochs = of_slots.then(|| settings.epochs.clone());
                let seeds = seeds.clone();
                Reached::Cluster(Cluster::new(seeds, link, epochs, runtime))
            }
            _ => Reached::One(Batcher::start(
                Arc::new(Link::start(link, runtime)),
                runtime,
                |_| 0,
            )),
        };
        Self {
            reached,
            epochs: settings.epochs.clone(),
        }
    }

    /// Asks a question about a key, which is not sent after `until`.
    pub(crate) async fn ask(
        &self,
        key: &[u8],
        question: Arc<Question>,
        until: Option<Instant>,
    ) -> Result<Reply, StoreError> {
        let replies = self.ask_all(&[(key, question)], until).await?;
        replies.into_iter().next().ok_or_else(unexpected_reply)
    }

    /// Asks questions on keys of one slot, which are charged all or none.
    pub(crate) async fn ask_all(
        &self,
        stack: &[KeyQuestion<'_>],
        until: Option<Instant>,
    ) -> Result<SmallVec<[Reply; 1]>, StoreError> {
        debug_assert!(!stack.is_empty(), "a caller asks something");
        let key = stack.first().map_or(&[][..], |(key, _)| *key);
        self.at(key, |batcher, asking| async move {
            batcher.ask(stack, until, asking).await
        })
        .await
    }

    /// Sends commands about a key to its server, and returns the reply to the last.
    pub(crate) async fn send(&self, key: &[u8], commands: &[Cmd]) -> Result<Value, StoreError> {
        self.at(key, |batcher, asking| async move {
            batcher.send(commands, asking).await
        })
        .await
    }

    /// Runs `ask` on the server of a key.
    pub(crate) async fn at<T, F>(
        &self,
        key: &[u8],
        ask: impl Fn(Arc<Batcher>, bool) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        match &self.reached {
            Reached::One(batcher) => Ok(ask(Arc::clone(batcher), false).await?),
            // Large, and most stores are no cluster.
            Reached::Cluster(cluster) => Box::pin(cluster.at(slot_of(key), ask)).await,
        }
    }

    /// A page of the stored keys that begin with `prefix`.
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

    /// The master of a cluster that the page at `from` is asked of, and where the page behind its
    /// keys begins; `None` at the end, and of one server.
    pub(crate) async fn behind_master(
        &self,
        from: Option<&[u8]>,
    ) -> Result<Option<(TcpAddress, Vec<u8>)>, StoreError> {
        match &self.reached {
            Reached::One(_) => Ok(None),
            Reached::Cluster(cluster) => listing::behind_master(cluster, from).await,
        }
    }

    /// A number that differs between the servers of keys; 0 if there is only one, or none is known.
    pub(crate) fn number_of(&self, key: &[u8]) -> usize {
        match &self.reached {
            Reached::One(_) => 0,
            Reached::Cluster(cluster) => cluster.number_of(slot_of(key)),
        }
    }

    /// The health of a key's server.
    pub(crate) fn health(&self, key: &[u8]) -> Health {
        match &self.reached {
            Reached::One(batcher) => batcher.link().health(),
            Reached::Cluster(cluster) => cluster.health(slot_of(key)),
        }
    }

    /// The round trip to a key's server, at best; zero without a connection.
    pub(crate) fn round_trip(&self, key: &[u8]) -> Duration {
        match &self.reached {
            Reached::One(batcher) => batcher.link().round_trip(),
            Reached::Cluster(cluster) => cluster.round_trip(slot_of(key)),
        }
    }

    /// Waits until the server of a key serves, or all servers do.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, which waiting does not change.
    pub(crate) async fn ready(&self, key: Option<&[u8]>) -> Result<(), StoreError> {
        match &self.reached {
            Reached::One(batcher) => batcher.link().ready().await,
            Reached::Cluster(cluster) => cluster.ready(key.map(slot_of)).await,
        }
    }

    /// Waits until all servers serve, and the user has these rights on each.
    ///
    /// # Errors
    ///
    /// `Misconfigured`, which waiting does not change.
    pub(crate) async fn ready_for(&self, rights: &Rights) -> Result<(), StoreError> {
        loop {
            self.ready(None).await?;
            match self.judge(rights).await {
                Err(error) if error.kind() != StoreErrorKind::Misconfigured => {
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                judged => return judged,
            }
        }
    }

    /// Asks each server for these rights.
    async fn judge(&self, rights: &Rights) -> Result<(), StoreError> {
        let batchers = match &self.reached {
            Reached::One(batcher) => vec![Arc::clone(batcher)],
            Reached::Cluster(cluster) => {
                let masters = cluster.masters().await?.into_iter();
                masters.map(|(_, batcher)| batcher).collect()
            }
        };
        for batcher in batchers {
            let connection = batcher.link().connected().await?;
            let replies = connection.send_all(rights.commands(), false).await;
            let ended = |Lost| StoreError::unavailable("the connection to Redis ended");
            rights.judge(&replies.map_err(ended)?)?;
        }
        Ok(())
    }
}

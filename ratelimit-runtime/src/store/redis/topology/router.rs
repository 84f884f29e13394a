//! [`Router`]: finds the node that a call is for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;

use super::cluster::{Path, Topology};
use super::deployment::Deployment;
use crate::error::StoreError;
use crate::store::redis::batching::charge::KeyCharge;
use crate::store::redis::connection::node::registry::ConnectionCount;
use crate::store::redis::connection::node::{Report, probe};
use crate::store::redis::connection::nodes::Nodes;
use crate::store::redis::connection::pool::Exclusive;
use crate::store::redis::connection::queue::Sharing;
use crate::store::redis::connection::resolve::Resolver;
use crate::store::redis::errors::{self, unexpected_reply};
use crate::store::redis::scripts::{protocol, script};
use crate::store::redis::wire::commands::{Commands, ServerResult};
use crate::store::redis::wire::slot::Slot;
use crate::store::{Health, Verdict};

pub(super) enum Router {
    /// One server, or whichever is the master.
    One(Nodes),
    Cluster(Topology),
}

impl Router {
    /// Connects to nothing yet.
    pub(super) fn new(deployment: &Deployment, group_commit: bool, connections: &ConnectionCount) -> Self {
        let resolver = match deployment {
            Deployment::Standalone(server) => Arc::clone(server) as Resolver,
            Deployment::Sentinel(sentinels) => Arc::clone(sentinels) as Resolver,
            Deployment::Cluster(seeds) => return Self::Cluster(Topology::new(seeds, group_commit, connections)),
        };
        let sharing = if group_commit { Sharing::All } else { Sharing::None };
        Self::One(Nodes::new(resolver, sharing, connections))
    }

    /// The slot of a key, which is computed in a cluster only.
    pub(super) fn slot(&self, slot: impl FnOnce() -> Slot) -> Slot {
        match self {
            Self::One(_) => Slot::default(),
            Self::Cluster(_) => slot(),
        }
    }

    /// The node to ask first for keys of a slot.
    pub(super) async fn destination(
        &self,
        slot: Slot,
        timeout_at: Option<Instant>,
    ) -> Result<Destination<'_>, StoreError> {
        Ok(match self {
            Self::One(nodes) => Destination::One(nodes),
            Self::Cluster(topology) => Destination::Cluster(Path::to(topology, slot, timeout_at).await?),
        })
    }

    pub(super) fn health(&self, slot: Slot) -> Health {
        match self {
            Self::One(nodes) => nodes.known().map_or(Health::Down, |node| node.health()),
            Self::Cluster(topology) => topology.health(slot),
        }
    }

    /// Reports that a call got no answer within `timeout`.
    pub(super) fn overdue(&self, slot: Slot, timeout: Duration) {
        match self {
            Self::One(nodes) => {
                if let Some(node) = nodes.known() {
                    node.report(Report::Overdue(timeout));
                }
            }
            Self::Cluster(topology) => topology.overdue(slot, timeout),
        }
    }

    /// Ends the connection to the server of a slot.
    pub(super) fn end(&self, slot: Slot, error: &StoreError) {
        match self {
            Self::One(nodes) => {
                if let Some(node) = nodes.known() {
                    node.end(error);
                }
            }
            Self::Cluster(topology) => topology.end(slot, error),
        }
    }

    /// Whether the server of a slot serves, or all of them.
    pub(super) async fn serves(&self, slot: Option<Slot>) -> Result<(), StoreError> {
        match (self, slot) {
            (Self::One(nodes), _) => {
                let node = nodes.current()?;
                node.ready().await?;
                probe::serves(&node).await
            }
            (Self::Cluster(topology), Some(slot)) => topology.serves_slot(slot).await,
            (Self::Cluster(topology), None) => topology.serves().await,
        }
    }
}

/// The node to ask now.
pub(crate) enum Destination<'a> {
    One(&'a Nodes),
    Cluster(Path<'a>),
}

impl Destination<'_> {
    /// Sends commands. The inner error is the first that the server replies.
    pub(super) async fn send(&self, commands: &impl Fn() -> Commands) -> ServerResult<Value> {
        let reply = match self {
            Self::One(nodes) => nodes.current()?.send(commands).await?,
            Self::Cluster(path) if path.is_asking() => path.node()?.send(|| commands().asking()).await?,
            Self::Cluster(path) => path.node()?.send(commands).await?,
        };
        Ok(match reply {
            Value::ServerError(error) => Err(error),
            Value::Array(replies) => errors::first(&replies).cloned().map_or(Ok(Value::Array(replies)), Err),
            reply => Ok(reply),
        })
    }

    pub(super) async fn charge(&self, charge: &KeyCharge<'_>) -> ServerResult<Verdict> {
        let path = match self {
            Self::One(nodes) => return nodes.current()?.charge(charge).await,
            Self::Cluster(path) => path,
        };
        if !path.is_asking() {
            return path.node()?.charge(charge).await;
        }
        let answer = match self.send(&|| charge.alone(false)).await? {
            Err(error) if script::is_unknown(&error) => self.send(&|| charge.alone(true)).await?,
            answer => answer,
        };
        match answer {
            Ok(reply) => protocol::verdict(&reply).map(Ok).ok_or_else(unexpected_reply),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Where to get a connection that no other caller uses.
    pub(crate) async fn exclusive(&self) -> Result<Exclusive, StoreError> {
        let (node, is_asking) = match self {
            Self::One(nodes) => (nodes.current()?, false),
            Self::Cluster(path) => (path.node()?, path.is_asking()),
        };
        Ok(Exclusive::new(node.connected().await?.pool, is_asking))
    }

    /// The answer, unless the server sends the call elsewhere: then this is the next node to ask.
    pub(crate) async fn follow_redirect<T>(&mut self, answer: ServerResult<T>) -> Option<ServerResult<T>> {
        match self {
            Self::One(_) => Some(answer),
            Self::Cluster(path) => path.follow_redirect(answer).await,
        }
    }
}

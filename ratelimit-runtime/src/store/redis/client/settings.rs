//! [`ClientSettings`]: what the clients of a store are made by.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::clock::Clock;
use crate::store::redis::cluster::slot_of;
use crate::store::redis::link::{LinkSettings, TIMEOUT_US, Upstream};
use crate::store::redis::scripts::load_all;
use crate::store::redis::settings::deployment::{Deployment, Kind};

/// What a client is made by.
#[derive(Clone)]
pub(crate) struct ClientSettings {
    pub(crate) deployment: Deployment,
    /// The caller's clock, in the place of the server's.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Scripts are made known to each server.
    pub(crate) runs_scripts: bool,
    /// The limiter's timeout in microseconds, which servers are measured by.
    pub(crate) timeout_us: Arc<AtomicU64>,
    /// How many connections have been made, of all clients.
    pub(crate) epoch: Arc<AtomicU64>,
}

impl ClientSettings {
    pub(crate) fn new(deployment: Deployment) -> Self {
        let timeout_us = Arc::new(AtomicU64::new(TIMEOUT_US));
        Self { deployment, clock: None, runs_scripts: true, timeout_us, epoch: Arc::default() }
    }

    pub(super) fn link(&self, upstream: Upstream) -> LinkSettings {
        let (timeout_us, epoch) = (Arc::clone(&self.timeout_us), Arc::clone(&self.epoch));
        let greeting = if self.runs_scripts { load_all().into() } else { Arc::default() };
        LinkSettings { upstream, timeout_us, epoch, greeting }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.deployment.kind, Kind::Cluster(_))
    }

    /// Whether keys are of one slot, and so of one server at any time.
    pub(crate) fn have_one_slot<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        if !self.is_cluster() {
            return true;
        }
        let first = keys.next().map(slot_of);
        keys.all(|key| Some(slot_of(key)) == first)
    }
}

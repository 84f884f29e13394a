//! The settings of a [`RedisStore`](crate::RedisStore), from its URL and its methods: servers,
//! logins, mode. Plain data: nothing here connects.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use self::deployment::{Deployment, listed};
use self::epochs::Epochs;
use self::mode::RedisMode;
use self::server::Server;
use crate::clock::Clock;

pub(crate) mod deployment;
pub(crate) mod epochs;
pub(crate) mod login;
pub(crate) mod mode;
pub(crate) mod server;
pub(crate) mod slot;
pub(crate) mod tls;
pub(crate) mod url;

/// The default timeout of a limiter, in microseconds.
const TIMEOUT_US: u64 = 100_000;

/// The settings of a store.
pub(crate) struct StoreSettings {
    /// The first server in the URL. Its login and TLS hold for all.
    pub(crate) server: Server,
    pub(crate) deployment: Deployment,
    pub(crate) mode: RedisMode,
    /// The caller's clock; `None` for the server's.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// The limiter's timeout in microseconds. A server that takes longer is doubted.
    pub(crate) timeout_us: Arc<AtomicU64>,
    pub(crate) epochs: Epochs,
}

impl StoreSettings {
    pub(crate) fn new(server: Server, deployment: Deployment) -> Self {
        let timeout_us = Arc::new(AtomicU64::new(TIMEOUT_US));
        let epochs = if matches!(deployment, Deployment::Cluster(_)) {
            Epochs::of_cluster()
        } else {
            Epochs::of_one(Arc::default())
        };
        Self {
            server,
            deployment,
            mode: RedisMode::default(),
            clock: None,
            timeout_us,
            epochs,
        }
    }

    /// The name in metrics: the address, or the name of the master.
    pub(crate) fn name(&self) -> String {
        match &self.deployment {
            Deployment::Sentinel(sentinels) => sentinels.name.clone(),
            Deployment::Standalone | Deployment::Cluster(_) => self.address(),
        }
    }

    /// The addresses and the name of the master, for messages. Without secrets.
    pub(crate) fn address(&self) -> String {
        match &self.deployment {
            Deployment::Standalone => self.server.to_string(),
            Deployment::Sentinel(sentinels) => sentinels.to_string(),
            Deployment::Cluster(seeds) => format!("the cluster of {}", listed(seeds)),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.deployment, Deployment::Cluster(_))
    }
}

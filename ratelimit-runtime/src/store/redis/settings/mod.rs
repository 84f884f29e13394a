//! What URLs and methods of [`RedisStore`](crate::RedisStore) say: which servers, how to log in
//! there, and how to decide. Plain data: nothing here connects.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use self::deployment::{Deployment, Kind};
use super::mode::RedisMode;
use crate::clock::Clock;

pub(crate) mod credentials;
pub(crate) mod deployment;
pub(crate) mod login;
pub(crate) mod server;
#[cfg(feature = "redis-tls")]
pub(crate) mod tls;
pub(crate) mod url;

/// Without the feature `redis-tls`, no server has TLS.
#[cfg(not(feature = "redis-tls"))]
pub(crate) mod tls {
    #[derive(Clone)]
    pub(crate) enum Tls {}

    pub(crate) fn platform() -> Option<Tls> {
        None
    }
}

/// The timeout of limiters that were not told another, in microseconds.
const TIMEOUT_US: u64 = 100_000;

/// The settings of a store.
pub(crate) struct StoreSettings {
    pub(crate) deployment: Deployment,
    pub(crate) mode: RedisMode,
    /// The caller's clock, in the place of the server's.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// The limiter's timeout in microseconds, which servers are measured by.
    pub(crate) timeout_us: Arc<AtomicU64>,
    /// How many connections have been made, on all runtimes.
    pub(crate) epoch: Arc<AtomicU64>,
}

impl StoreSettings {
    pub(crate) fn new(deployment: Deployment) -> Self {
        let timeout_us = Arc::new(AtomicU64::new(TIMEOUT_US));
        Self { deployment, mode: RedisMode::default(), clock: None, timeout_us, epoch: Arc::default() }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.deployment.kind, Kind::Cluster(_))
    }
}

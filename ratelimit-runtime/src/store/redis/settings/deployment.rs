//! [`Deployment`]: the servers that a URL names: one, the master that Sentinel knows, or a cluster.

use std::fmt;

use super::login::Login;
use super::server::{Server, TcpAddress};

/// The servers that a URL names.
#[derive(Clone)]
pub(crate) struct Deployment {
    /// The first server that the URL names, with the login, TLS and settings of all.
    pub(crate) server: Server,
    pub(crate) kind: Kind,
}

#[derive(Clone)]
pub(crate) enum Kind {
    Standalone,
    /// The server is the master that these know. Its address is not known.
    Sentinel(SentinelNames),
    /// The servers are a cluster, of which these are some.
    Cluster(Vec<TcpAddress>),
}

/// Sentinels, and the name by which they know the master.
#[derive(Clone)]
pub(crate) struct SentinelNames {
    pub(crate) name: String,
    pub(crate) login: Login,
    /// Those of the URL, at least one.
    pub(crate) addresses: Vec<TcpAddress>,
}

impl Deployment {
    /// The name in metrics: the address, or the name of the master.
    pub(crate) fn name(&self) -> String {
        match &self.kind {
            Kind::Sentinel(sentinels) => sentinels.name.clone(),
            Kind::Standalone | Kind::Cluster(_) => self.to_string(),
        }
    }
}

/// The addresses, and the name of the master: nothing secret.
impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Standalone => self.server.fmt(f),
            Kind::Sentinel(sentinels) => sentinels.fmt(f),
            Kind::Cluster(seeds) => write!(f, "the cluster of {}", listed(seeds)),
        }
    }
}

impl fmt::Display for SentinelNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by Sentinel at {}", self.name, listed(&self.addresses))
    }
}

fn listed(servers: &[TcpAddress]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

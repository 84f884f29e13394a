//! [`Deployment`]: one server, the master that Sentinel knows, or a cluster.

use std::fmt;

use super::login::Login;
use super::server::TcpAddress;

pub(crate) enum Deployment {
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

impl fmt::Display for SentinelNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by Sentinel at {}", self.name, listed(&self.addresses))
    }
}

pub(super) fn listed(servers: &[TcpAddress]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

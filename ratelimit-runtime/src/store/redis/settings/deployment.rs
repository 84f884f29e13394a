//! [`Deployment`]: what a URL names: one server, the sentinels of a master, or nodes of a cluster.

use std::fmt;

use super::login::Login;
use super::server::TcpAddress;

pub(crate) enum Deployment {
    Standalone,
    /// The server is the master that Sentinel names.
    Sentinel(SentinelNames),
    /// The nodes of the URL; the others are found from them.
    Cluster(Vec<TcpAddress>),
}

/// The addresses of the sentinels, and the name of the master.
#[derive(Clone)]
pub(crate) struct SentinelNames {
    pub(crate) name: String,
    pub(crate) login: Login,
    /// The sentinels of the URL, at least one.
    pub(crate) addresses: Vec<TcpAddress>,
}

impl fmt::Display for SentinelNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} by Sentinel at {}",
            self.name,
            listed(&self.addresses)
        )
    }
}

pub(super) fn listed(servers: &[TcpAddress]) -> String {
    servers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

//! [`Deployment`]: the servers that a URL names: one, the master that Sentinel knows, or a cluster.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "redis-client")]
use redis::ConnectionInfo;

use super::server::Server;
use super::tls::Tls;
use super::url::{self, CLUSTER, List, SENTINEL};
use crate::error::StoreError;

/// The servers that a URL names.
#[derive(Debug, Clone)]
pub(crate) enum Deployment {
    Standalone(Arc<Server>),
    Sentinel(Watched),
    Cluster(Seeds),
}

/// The master of one name, and the sentinels that watch it.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) name: String,
    /// Login and TLS of the master, wherever it is.
    pub(crate) master: Server,
    /// The sentinels of the URL, at least one. All have the same login.
    pub(crate) sentinels: Vec<Server>,
}

/// Some servers of a cluster. All have the same login.
#[derive(Debug, Clone)]
pub(crate) struct Seeds {
    first: Server,
    all: Vec<Server>,
}

impl Seeds {
    fn new(all: Vec<Server>) -> Option<Self> {
        Some(Self { first: all.first()?.clone(), all })
    }

    /// A server with the login and TLS of them all.
    pub(crate) fn template(&self) -> &Server {
        &self.first
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.all
    }

    fn configure(&mut self, change: impl Fn(&mut Server)) {
        change(&mut self.first);
        self.all.iter_mut().for_each(change);
    }
}

impl Deployment {
    /// # Errors
    ///
    /// `Misconfigured`. The message never repeats the URL, which may hold a password.
    pub(crate) fn from_url(url: &str) -> Result<Self, StoreError> {
        if url.starts_with(char::is_whitespace) || url.ends_with(char::is_whitespace) {
            return Err(StoreError::misconfigured(
                "there is white space around the Redis URL: leave it out, also a line break at its end",
            ));
        }
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        match scheme.split_once('+') {
            Some((scheme @ ("redis" | "rediss" | "valkey" | "valkeys"), "sentinel")) => sentinels(scheme, rest),
            Some((scheme @ ("redis" | "rediss" | "valkey" | "valkeys"), "cluster")) => cluster(scheme, rest),
            _ => url::server(url).map(Arc::new).map(Self::Standalone),
        }
    }

    /// The server that a client of the application leads to.
    #[cfg(feature = "redis-client")]
    pub(crate) fn from_info(info: &ConnectionInfo) -> Result<Self, StoreError> {
        url::from_info(info).map(Arc::new).map(Self::Standalone)
    }

    /// Changes the settings of all servers but sentinels.
    pub(crate) fn configure(&mut self, change: impl Fn(&mut Server)) {
        match self {
            Self::Standalone(server) => change(Arc::make_mut(server)),
            Self::Sentinel(watched) => change(&mut watched.master),
            Self::Cluster(seeds) => seeds.configure(change),
        }
    }

    /// Changes the settings of all servers.
    #[cfg(feature = "redis-tls")]
    pub(crate) fn configure_all(&mut self, change: impl Fn(&mut Server)) {
        if let Self::Sentinel(watched) = self {
            watched.sentinels.iter_mut().for_each(&change);
        }
        self.configure(change);
    }

    /// Login, TLS and settings of the servers.
    fn template(&self) -> &Server {
        match self {
            Self::Standalone(server) => server,
            Self::Sentinel(watched) => &watched.master,
            Self::Cluster(seeds) => seeds.template(),
        }
    }

    /// The name in metrics: the address, or the name of the master.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sentinel(watched) => watched.name.clone(),
            Self::Standalone(_) | Self::Cluster(_) => self.to_string(),
        }
    }

    pub(crate) fn database(&self) -> i64 {
        self.template().login().database()
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.template().tls()
    }
}

fn sentinels(scheme: &str, rest: &str) -> Result<Deployment, StoreError> {
    let url = List::parse(scheme, rest, SENTINEL)?;
    url.takes(&["protocol", "sentinel_user", "sentinel_password"])?;
    let (name, database) = match url.path.as_slice() {
        [name] => (url.decode(name)?, "0"),
        [name, database] => (url.decode(name)?, *database),
        _ => return Err(SENTINEL.malformed()),
    };
    url::number(database)?;
    let (user, password) = (url.parameter("sentinel_user")?, url.parameter("sentinel_password")?);
    if user.is_some() && password.is_none() {
        return Err(SENTINEL.malformed());
    }
    let servers = url.servers(26379, database)?;
    let master = servers.first().cloned().ok_or_else(|| SENTINEL.malformed())?;
    let sentinels = servers.iter().map(|server| server.of_user(user.as_deref(), password.as_deref())).collect();
    Ok(Deployment::Sentinel(Watched { name, master, sentinels }))
}

fn cluster(scheme: &str, rest: &str) -> Result<Deployment, StoreError> {
    let url = List::parse(scheme, rest, CLUSTER)?;
    url.takes(&["protocol"])?;
    match url.path.as_slice() {
        [] | ["0"] => {}
        [database] if database.parse::<u32>().is_ok() => {
            return Err(StoreError::misconfigured(
                "a Redis Cluster has only database 0: leave the number out of the URL",
            ));
        }
        _ => return Err(CLUSTER.malformed()),
    }
    Seeds::new(url.servers(6379, "0")?).map(Deployment::Cluster).ok_or_else(|| CLUSTER.malformed())
}

/// The master's name and the addresses of the sentinels: nothing secret.
impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by Sentinel at {}", self.name, listed(&self.sentinels))
    }
}

/// The addresses: nothing secret.
impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standalone(server) => server.fmt(f),
            Self::Sentinel(watched) => watched.fmt(f),
            Self::Cluster(seeds) => write!(f, "the cluster of {}", listed(&seeds.all)),
        }
    }
}

fn listed(servers: &[Server]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::error::StoreErrorKind;

    #[test]
    fn urls() {
        for (url, shown, database) in [
            ("redis://h", "h:6379", 0),
            ("valkey://h/2", "h:6379", 2),
            ("unix:///run/redis.sock?db=1", "/run/redis.sock", 1),
            ("redis+unix:///run/redis.sock", "/run/redis.sock", 0),
            ("redis+sentinel://h/main", "main by Sentinel at h:26379", 0),
            ("redis+sentinel://h/main/", "main by Sentinel at h:26379", 0),
            ("valkey+sentinel://a:1,b,[::1],[::2]:4/m/3", "m by Sentinel at a:1,b:26379,[::1]:26379,[::2]:4", 3),
            ("redis+sentinel://u:p%2C%40@a,b/my%2Fmaster?protocol=2", "my/master by Sentinel at a:26379,b:26379", 0),
            ("redis+sentinel://a/m?sentinel_user=s&sentinel_password=p%26q", "m by Sentinel at a:26379", 0),
            ("redis+cluster://h", "the cluster of h:6379", 0),
            ("redis+cluster://:p@h:1,i/0?protocol=resp3", "the cluster of h:1,i:6379", 0),
            ("valkey+cluster://[::1],10.0.0.1:2/", "the cluster of [::1]:6379,10.0.0.1:2", 0),
        ] {
            let deployment = Deployment::from_url(url).unwrap();
            assert_eq!((deployment.to_string().as_str(), deployment.database()), (shown, database), "{url}");
            assert!(deployment.tls().is_none(), "{url}");
        }
    }

    #[test]
    fn names_in_metrics_are_those_of_connections_and_hold_nothing_secret() {
        for (url, name) in [
            ("redis://alice:hunter2@h:1/3", "h:1"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
            ("redis+sentinel://alice:hunter2@a,b/my%2Fmaster", "my/master"),
            ("redis+cluster://alice:hunter2@h:1,i", "the cluster of h:1,i:6379"),
        ] {
            assert_eq!(Deployment::from_url(url).unwrap().name(), name, "{url}");
        }
    }

    #[test]
    fn malformed_urls_are_told_the_form_and_never_repeated() {
        for (url, expected) in [
            ("hunter2", "starts with redis://"),
            ("redis+hunter2://h", "starts with redis://"),
            ("unix+sentinel://h/m", "starts with redis://"),
            ("redis+sentinel://:hunter2@h", "/master-name"),
            ("redis+sentinel://:hunter2@h/m/1/2", "/master-name"),
            ("redis+sentinel://:hunter2@h/m/x", "database in the Redis URL is not a number"),
            ("redis+sentinel://:hunter2@/m", "/master-name"),
            ("redis+sentinel://:hunter2@a,,b/m", "/master-name"),
            ("redis+sentinel://:hunter2@a:/m", "/master-name"),
            ("redis+sentinel://:hunter2@a:99999/m", "ports are from 1 to 65535"),
            ("redis+cluster://:hunter2@a,b:0", "ports are from 1 to 65535"),
            (" redis://:hunter2@h", "white space around"),
            ("redis://:hunter2@h\n", "white space around"),
            ("redis+cluster://:hunter2@a ", "white space around"),
            ("redis+sentinel://:hunter2@::1/m", "/master-name"),
            ("redis+sentinel://:hunter2/x@a/m", "/master-name"),
            ("redis+sentinel://u:1/hunter2@a", "/master-name"),
            ("redis+sentinel://:hunter2#x@a/m", "/master-name"),
            ("redis+sentinel://a/m%FF?sentinel_password=hunter2", "/master-name"),
            ("redis+sentinel://a/m?sentinel_user=hunter2", "/master-name"),
            ("redis+sentinel://a/m?sentinelpassword=hunter2", "`sentinel_user=`, `sentinel_password=`"),
            ("redis+sentinel://a/m?hunter2", "/master-name"),
            ("redis+sentinel://a/m?protocol=hunter2", "the protocol in the Redis URL is not known"),
            ("redis+cluster://:hunter2@a/1", "database 0"),
            ("redis+cluster://:hunter2@a/name", "redis+cluster://"),
            ("redis+cluster://:hunter2@a,:1", "redis+cluster://"),
            ("redis+cluster://:hunter2@", "redis+cluster://"),
            ("redis+cluster://a?sentinel_password=hunter2", "there may be `protocol=`,"),
        ] {
            let error = Deployment::from_url(url).err().unwrap_or_else(|| panic!("{url} is one"));
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
            assert!(error.message().contains(expected), "{url}: {error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn tls_is_said_by_the_scheme() {
        for url in ["rediss://h", "rediss+sentinel://h/m", "valkeys+sentinel://h/m", "rediss+cluster://h"] {
            match Deployment::from_url(url) {
                Ok(deployment) => assert!(cfg!(feature = "redis-tls") && deployment.tls().is_some(), "{url}"),
                Err(error) => assert!(!cfg!(feature = "redis-tls") && error.message().contains("redis-tls"), "{error}"),
            }
        }
    }

    #[test]
    fn a_server_at_another_address_keeps_all_else() {
        let server = url::server("redis://u:p@h:1/3").unwrap().at("::1", 2);
        assert_eq!((server.to_string().as_str(), server.login().database()), ("[::1]:2", 3));
        assert!(server.login().words().starts_with("HELLO 3 AUTH u p SELECT 3"), "{}", server.login().words());
        // A sentinel has a login of its own, and no databases.
        let sentinel = server.of_user(None, Some("q"));
        assert_eq!(sentinel.login().words(), "AUTH q");
    }
}

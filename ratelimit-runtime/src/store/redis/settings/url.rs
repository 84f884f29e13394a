//! URLs that name servers. No error repeats a URL, which may hold a password.

#[cfg(feature = "redis-client")]
use redis::{ConnectionAddr, ConnectionInfo};
use redis::{IntoConnectionInfo, ProtocolVersion};

use super::server::Server;
use super::tls::{self, Tls};
use crate::error::StoreError;

/// The form of a URL.
#[derive(Clone, Copy)]
pub(super) struct Form(&'static str);

pub(super) const STANDALONE: Form = Form("redis://[user][:password]@host[:port][/database]");
pub(super) const SENTINEL: Form = Form(
    "redis+sentinel://[user][:password]@host[:port][,host[:port]…]/master-name[/database][?sentinel_user=…&\
     sentinel_password=…]",
);
pub(super) const CLUSTER: Form = Form("redis+cluster://[user][:password]@host[:port][,host[:port]…]");

impl Form {
    pub(super) fn malformed(self) -> StoreError {
        StoreError::misconfigured(format!(
            "the Redis URL is malformed: write {}, with special characters of the password percent-encoded (`/` as \
             %2F, `#` as %23, `?` as %3F, `@` as %40)",
            self.0
        ))
    }
}

/// The parameters of a URL with one host, and of one with a socket.
const OF_TCP: &[&str] = &["protocol"];
const OF_UNIX: &[&str] = &["protocol", "db", "user", "pass"];

/// The server that a URL names.
///
/// # Errors
///
/// `Misconfigured`.
pub(crate) fn server(url: &str) -> Result<Server, StoreError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let tls = match scheme {
        "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => None,
        "rediss" | "valkeys" => Some(platform_tls()?),
        _ => {
            return Err(StoreError::misconfigured(
                "a Redis URL starts with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, \
                 redis+cluster:// or rediss+cluster://",
            ));
        }
    };
    // TLS is done here, so the client library need not know of it.
    let plain =
        if tls.is_some() { format!("redis{}", url.get(scheme.len()..).unwrap_or_default()) } else { url.to_owned() };
    if tls.is_some() && url.contains('#') {
        return Err(StoreError::misconfigured("a rediss:// URL has no fragment: certificates are always checked"));
    }
    let (before_query, query) = url.split_once('?').unwrap_or((url, ""));
    let is_unix = scheme.contains("unix");
    let pairs = query.split('#').next().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let names = pairs.clone().map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    has_parameters(names, if is_unix { OF_UNIX } else { OF_TCP })?;
    pairs.filter_map(|pair| pair.strip_prefix("protocol=")).try_for_each(protocol_is_known)?;
    if !is_unix {
        has_port(before_query)?;
    }
    database_is_a_number(url)?;
    let info = plain.into_connection_info().map_err(|_| STANDALONE.malformed())?;
    let chosen = query.split(['&', '#']).any(|pair| pair.starts_with("protocol="));
    let protocol = if chosen { info.redis_settings().protocol() } else { ProtocolVersion::RESP3 };
    Server::from_info(&info, tls, protocol).ok_or_else(|| STANDALONE.malformed())
}

/// Every parameter of a URL is one of these. The error does not repeat it: a `?` that is not
/// encoded makes a parameter of a password.
fn has_parameters<'a>(mut names: impl Iterator<Item = &'a str>, known: &[&str]) -> Result<(), StoreError> {
    if names.all(|name| known.contains(&name)) {
        return Ok(());
    }
    Err(StoreError::misconfigured(format!(
        "a parameter of the Redis URL is not known: behind the `?` there may be {}, and a `?` of a password is \
         percent-encoded as %3F",
        known.iter().map(|name| format!("`{name}=`")).collect::<Vec<_>>().join(", ")
    )))
}

/// `protocol` is one that Redis has. The error does not repeat it, because it may be a part of a
/// password.
fn protocol_is_known(protocol: &str) -> Result<(), StoreError> {
    if matches!(protocol, "2" | "resp2" | "3" | "resp3") {
        return Ok(());
    }
    Err(StoreError::misconfigured(
        "the protocol in the Redis URL is not known: write `protocol=resp2`, or leave it out for RESP3; a `?` of a \
         password is percent-encoded as %3F",
    ))
}

/// The port of a URL without its query, if it names one, is from 1 to 65535.
fn has_port(url: &str) -> Result<(), StoreError> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    // A slash before the `@` is a part of a password that is not encoded: that has an error of its
    // own.
    let authority = rest.split(['/', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_whole = authority.len() == rest.len() || !rest.contains('@') || authority.contains('@');
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole && is_number && !port.parse::<u16>().is_ok_and(|port| port != 0) {
        return Err(StoreError::misconfigured("the port in the Redis URL is not one: ports are from 1 to 65535"));
    }
    Ok(())
}

/// What stands behind the slash of `url` is the number of a database.
fn database_is_a_number(url: &str) -> Result<(), StoreError> {
    let Some((_, rest)) = url.split_once("://").filter(|(scheme, _)| !scheme.contains("unix")) else { return Ok(()) };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let database = rest.split_once('/').map_or("", |(_, database)| database).trim_end_matches('/');
    // With an `@`, it is a part of the login that is not encoded.
    if database.is_empty() || database.contains('@') { Ok(()) } else { number(database) }
}

/// `database` is the number of one. The error does not repeat it, because it may be a part of a
/// password.
pub(super) fn number(database: &str) -> Result<(), StoreError> {
    let what_to_write = "the database in the Redis URL is not a number: write redis://host/0, or leave it out";
    database.parse::<u32>().map(drop).map_err(|_| StoreError::misconfigured(what_to_write))
}

fn platform_tls() -> Result<Tls, StoreError> {
    let missing = || StoreError::misconfigured("TLS (`rediss`) needs the feature `redis-tls` of ratelimit-runtime");
    tls::platform().ok_or_else(missing)
}

/// The server that a client of the application leads to.
///
/// # Errors
///
/// `Misconfigured`.
#[cfg(feature = "redis-client")]
pub(crate) fn from_info(info: &ConnectionInfo) -> Result<Server, StoreError> {
    let tls = match info.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err(StoreError::misconfigured(
                "this client does not check certificates, and this store always does",
            ));
        }
        ConnectionAddr::TcpTls { .. } => Some(platform_tls()?),
        _ => None,
    };
    let unknown = || StoreError::misconfigured("this store does not know the kind of address that this client has");
    Server::from_info(info, tls, info.redis_settings().protocol()).ok_or_else(unknown)
}

/// The parts of a URL with several hosts.
pub(super) struct List<'a> {
    scheme: &'a str,
    /// With the `@` after it.
    user: &'a str,
    hosts: Vec<&'a str>,
    /// What is between slashes after the hosts.
    pub(super) path: Vec<&'a str>,
    query: Vec<(&'a str, &'a str)>,
    form: Form,
}

impl<'a> List<'a> {
    /// `rest` is what comes after `scheme://`, where the scheme is without its `+…`.
    pub(super) fn parse(scheme: &'a str, rest: &'a str, form: Form) -> Result<Self, StoreError> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
        let query = query.split('&').filter(|pair| !pair.is_empty());
        let query: Option<_> = query.map(|pair| pair.split_once('=')).collect();
        if rest.contains('#') || path.contains('@') {
            return Err(form.malformed());
        }
        if matches!(scheme, "rediss" | "valkeys") {
            platform_tls()?;
        }
        Ok(Self {
            scheme,
            user,
            hosts: hosts.split(',').collect(),
            path: path.split('/').filter(|part| !part.is_empty()).collect(),
            query: query.ok_or_else(|| form.malformed())?,
            form,
        })
    }

    /// There is nothing in the query but these.
    pub(super) fn takes(&self, names: &[&str]) -> Result<(), StoreError> {
        has_parameters(self.query.iter().map(|(name, _)| *name), names)
    }

    /// A parameter of the query, decoded.
    pub(super) fn parameter(&self, name: &str) -> Result<Option<String>, StoreError> {
        let value = self.query.iter().find(|pair| pair.0 == name);
        value.map(|(_, value)| self.decode(value)).transpose()
    }

    pub(super) fn decode(&self, text: &str) -> Result<String, StoreError> {
        let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
        decoded.map(Into::into).map_err(|_| self.form.malformed())
    }

    /// The hosts as servers, with the URL's login and this database.
    pub(super) fn servers(&self, default_port: u16, database: &str) -> Result<Vec<Server>, StoreError> {
        let protocol = self.parameter("protocol")?;
        protocol.as_deref().map_or(Ok(()), protocol_is_known)?;
        let protocol = protocol.map(|protocol| format!("?protocol={protocol}")).unwrap_or_default();
        for host in &self.hosts {
            has_port(host)?;
        }
        let one = |host: &&str| {
            let name_ends = host.rfind(']').unwrap_or_default();
            let has_port = host.get(name_ends..)?.contains(':');
            let port = if has_port { String::new() } else { format!(":{default_port}") };
            let url = format!("{}://{}{host}{port}/{database}{protocol}", self.scheme, self.user);
            if host.ends_with(':') { None } else { server(&url).ok() }
        };
        let servers: Option<Vec<_>> = self.hosts.iter().map(one).collect();
        servers.ok_or_else(|| self.form.malformed())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::error::StoreErrorKind;

    #[test]
    fn urls() {
        for (url, address) in [
            ("redis://h", "h:6379"),
            ("redis://u:p@h:1/2", "h:1"),
            ("redis://:p%2Fq@h", "h:6379"),
            ("unix:///run/redis.sock?db=1", "/run/redis.sock"),
            ("redis://[::1]:7", "[::1]:7"),
            ("redis://h:1/", "h:1"),
            ("redis://h:1/2?protocol=3", "h:1"),
            ("redis://h:65535", "h:65535"),
            ("redis+unix:///run/a/redis.sock", "/run/a/redis.sock"),
        ] {
            assert_eq!(server(url).unwrap().to_string(), address, "{url}");
        }
        let secret = "hunter2";
        for (url, expected) in [
            ("hunter2", "starts with redis://"),
            ("http://u:hunter2@h", "starts with redis://"),
            ("hunter2:6379", "starts with redis://"),
            ("redis://:hunter2/x@h", "percent-encoded"),
            ("redis://:hunter2#x@h", "percent-encoded"),
            ("redis://u:hunter2@h/notanumber", "the database in the Redis URL is not a number"),
            ("redis://h/hunter2/", "is not a number"),
            ("valkey://h:1/hunter2?protocol=3", "is not a number"),
            ("redis://u:hunter2@h?protocol=hunter2", "write `protocol=resp2`, or leave it out"),
            ("redis://h?protocol=RESP2", "the protocol in the Redis URL is not known"),
            ("redis://h?protocol=", "the protocol in the Redis URL is not known"),
            ("unix:///s?db=1&protocol=4", "the protocol in the Redis URL is not known"),
            ("redis://u:hunter2@", "percent-encoded"),
            ("redis://h/0?nonsense=1", "there may be `protocol=`,"),
            ("redis://h?hunter2", "there may be `protocol=`,"),
            ("redis://:hunter2?x@h", "a `?` of a password"),
            ("redis://h?db=1", "there may be `protocol=`,"),
            ("unix:///s?database=1", "`protocol=`, `db=`, `user=`, `pass=`"),
            ("redis://u:hunter2@h:99999", "ports are from 1 to 65535"),
            ("redis://h:99999/1?protocol=3", "ports are from 1 to 65535"),
            ("redis://[::1]:0", "ports are from 1 to 65535"),
        ] {
            let error = server(url).err().unwrap();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
            assert!(error.message().contains(expected), "{url}: {error}");
            assert!(!format!("{error:?}").contains(secret), "{error:?}");
        }
    }

    #[test]
    fn tls_is_said_by_the_scheme() {
        assert_eq!(server("rediss://h:1").is_ok_and(|server| server.tls().is_some()), cfg!(feature = "redis-tls"));
        assert!(server("redis://h:1").unwrap().tls().is_none());
        assert!(server("rediss://h:1/#insecure").is_err());
    }

    fn steps(url: &str) -> String {
        server(url).unwrap().login().words()
    }

    #[test]
    fn protocol_is_resp3_unless_chosen() {
        assert_eq!(steps("redis://h"), "HELLO 3");
        assert_eq!(steps("redis://:p@h"), "HELLO 3 AUTH default p");
        assert_eq!(steps("redis://u:p@h/0?protocol=3"), "HELLO 3 AUTH u p");
        assert_eq!(steps("redis://u:p@h/0?protocol=resp2"), "AUTH u p");
        assert_eq!(steps("redis://:p@h/0?protocol=resp2"), "AUTH p");
        assert_eq!(steps("unix:///s?db=1&protocol=2"), "SELECT 1");
    }
}

//! Parsing of URLs. No error repeats a URL, which may hold a password.

use percent_encoding::percent_decode_str;
use redis::IntoConnectionInfo;
#[cfg(feature = "redis-client")]
use redis::{ConnectionAddr, ConnectionInfo};

use super::StoreSettings;
use super::deployment::{Deployment, SentinelNames};
use super::login::Login;
use super::server::{Address, Server, TcpAddress};
use super::tls::{self, Tls};
use crate::error::StoreError;

/// A kind of URL: its syntax, and the names of its parameters.
struct Form(&'static str, &'static [&'static str]);

const STANDALONE: Form = Form("redis://[[user]:password@]host[:port][/database]", &[]);
const UNIX: Form = Form("unix:///path/to/socket", &["db", "user", "pass"]);
const SENTINEL: Form = Form(
    "redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master-name[/database]",
    &["sentinel_user", "sentinel_password"],
);
const CLUSTER: Form = Form(
    "redis+cluster://[[user]:password@]host[:port][,host[:port]…]",
    &[],
);

impl Form {
    fn malformed(&self) -> StoreError {
        let parameters: Vec<_> = self.1.iter().map(|name| format!("`{name}=`")).collect();
        let parameters = if parameters.is_empty() {
            "nothing".to_owned()
        } else {
            parameters.join(", ")
        };
        StoreError::misconfigured(format!(
            "the Redis URL is malformed: write {}, with special characters of a password \
             percent-encoded (`/` as %2F, `#` as %23, `?` as %3F, `@` as %40); behind a `?` there \
             may be {parameters}",
            self.0,
        ))
    }
}

/// The settings of a store on the servers of a URL.
///
/// # Errors
///
/// `Misconfigured` if the URL is malformed, or needs a feature that is off.
pub(crate) fn settings(url: &str) -> Result<StoreSettings, StoreError> {
    let (scheme, rest) = url.trim().split_once("://").unwrap_or_default();
    let (base, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let tls = match base {
        "rediss" | "valkeys" => Some(platform_tls()?),
        _ => None,
    };
    let parts = |form| Parts::new(form, tls.clone(), rest);
    match (base, kind) {
        ("redis" | "rediss" | "valkey" | "valkeys", "") => parts(&STANDALONE)?.standalone("redis"),
        ("unix", "") | ("redis" | "valkey", "unix") => parts(&UNIX)?.standalone("unix"),
        ("redis" | "rediss" | "valkey" | "valkeys", "sentinel") => parts(&SENTINEL)?.sentinels(),
        ("redis" | "rediss" | "valkey" | "valkeys", "cluster") => parts(&CLUSTER)?.cluster(),
        _ => Err(StoreError::misconfigured(
            "a Redis URL starts with redis://, rediss://, unix://, redis+sentinel://, \
             rediss+sentinel://, redis+cluster:// or rediss+cluster://",
        )),
    }
}

fn platform_tls() -> Result<Tls, StoreError> {
    let missing = || {
        StoreError::misconfigured(
            "TLS (`rediss`) needs the feature `redis-tls` of ratelimit-runtime",
        )
    };
    tls::platform().ok_or_else(missing)
}

/// The settings of a store on the server of a client of the crate `redis`.
///
/// # Errors
///
/// `Misconfigured` if the client does not check certificates, names a user without a password, or
/// needs a feature that is off.
#[cfg(feature = "redis-client")]
pub(crate) fn from_info(info: &ConnectionInfo) -> Result<StoreSettings, StoreError> {
    let tls = match info.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err(StoreError::misconfigured(
                "this client does not check certificates, and this store always does",
            ));
        }
        ConnectionAddr::TcpTls { .. } => Some(platform_tls()?),
        _ => None,
    };
    Ok(StoreSettings::new(
        Server::from_info(info, tls)?,
        Deployment::Standalone,
    ))
}

/// The parts of a URL after its scheme.
struct Parts<'a> {
    form: &'static Form,
    tls: Option<Tls>,
    /// Login, hosts and path.
    place: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn new(form: &'static Form, tls: Option<Tls>, rest: &'a str) -> Result<Self, StoreError> {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let this = Self {
            form,
            tls,
            place,
            query,
        };
        let is_known = |(name, _)| form.1.contains(&name);
        if rest.contains('#') || !this.parameters().all(is_known) {
            Err(form.malformed())
        } else {
            Ok(this)
        }
    }

    fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    /// The decoded value of a parameter.
    fn parameter(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.parameters()
            .find(|pair| pair.0 == name)
            .map(|(_, value)| self.decode(value))
            .transpose()
    }

    fn decode(&self, text: &str) -> Result<String, StoreError> {
        percent_decode_str(text)
            .decode_utf8()
            .map(Into::into)
            .map_err(|_| self.form.malformed())
    }

    /// One server, parsed by the crate `redis`. TLS is left out, because this crate does it.
    fn server(&self, scheme: &str, place: &str) -> Result<Server, StoreError> {
        // The crate would read a plus as a space.
        let url = format!("{scheme}://{place}?{}", self.query.replace('+', "%2B"));
        let info = url
            .into_connection_info()
            .map_err(|_| self.form.malformed())?;
        let server = Server::from_info(&info, self.tls.clone())?;
        match &server.address {
            // Several hosts are sentinels, or nodes of a cluster.
            Address::Tcp(TcpAddress { host, .. }) if host.contains(',') => {
                Err(self.form.malformed())
            }
            _ => Ok(server),
        }
    }

    /// The first of several servers, with the login and this database, and the addresses of all.
    fn hosts(
        &self,
        default_port: u16,
        database: &str,
    ) -> Result<(Server, Vec<TcpAddress>), StoreError> {
        let authority = self.place.split('/').next().unwrap_or_default();
        let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        // Hosts with logins of their own would be part of the password.
        if user.matches('@').count() > 1 {
            return Err(self.form.malformed());
        }
        let mut all = Vec::new();
        for host in hosts.split(',') {
            let port = host.rsplit_once(':').map_or("", |(_, port)| port);
            let has_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = if has_port {
                String::new()
            } else {
                format!(":{default_port}")
            };
            all.push(self.server("redis", &format!("{user}{host}{port}/{database}"))?);
        }
        let address = |server: &Server| match &server.address {
            Address::Tcp(address) => Some(address.clone()),
            Address::Unix(_) => None,
        };
        let addresses = all.iter().filter_map(address).collect();
        all.into_iter()
            .next()
            .map(|first| (first, addresses))
            .ok_or_else(|| self.form.malformed())
    }

    /// The parts of the path after the hosts, without slashes.
    fn path(&self) -> Result<Vec<&'a str>, StoreError> {
        let (_, path) = self.place.split_once('/').unwrap_or_default();
        // The slash was part of a password, which must be percent-encoded.
        if path.contains('@') {
            return Err(self.form.malformed());
        }
        Ok(path.split('/').filter(|part| !part.is_empty()).collect())
    }

    fn standalone(self, scheme: &str) -> Result<StoreSettings, StoreError> {
        let server = self.server(scheme, self.place)?;
        Ok(StoreSettings::new(server, Deployment::Standalone))
    }

    fn sentinels(self) -> Result<StoreSettings, StoreError> {
        let (name, database) = match *self.path()? {
            [name] => (self.decode(name)?, "0"),
            [name, database] => (self.decode(name)?, database),
            _ => return Err(self.form.malformed()),
        };
        let (user, password) = (
            self.parameter("sentinel_user")?,
            self.parameter("sentinel_password")?,
        );
        let (server, addresses) = self.hosts(26379, database)?;
        let names = SentinelNames {
            name,
            login: Login::of_user(user, password)?,
            addresses,
        };
        Ok(StoreSettings::new(server, Deployment::Sentinel(names)))
    }

    fn cluster(self) -> Result<StoreSettings, StoreError> {
        // A cluster has only one database.
        if !matches!(*self.path()?, [] | ["0"]) {
            return Err(self.form.malformed());
        }
        let (server, seeds) = self.hosts(6379, "0")?;
        Ok(StoreSettings::new(server, Deployment::Cluster(seeds)))
    }
}

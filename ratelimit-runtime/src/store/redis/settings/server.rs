//! [`Server`]: the address of one server, its TLS and its login.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo, ProtocolVersion};

use super::login::Login;
use super::tls::Tls;

/// The address of one server, its TLS and its login.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    address: Address,
    tls: Option<Tls>,
    login: Login,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Server {
    /// The server that the crate `redis` would connect to. `None` for an address of a kind that
    /// this crate does not know.
    pub(super) fn from_info(info: &ConnectionInfo, tls: Option<Tls>, protocol: ProtocolVersion) -> Option<Self> {
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Address::Tcp { host: host.clone(), port: *port }
            }
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => return None,
        };
        Some(Self { address, tls, login: Login::new(info.redis_settings(), protocol) })
    }

    /// The same login and TLS at another address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        Self { address: Address::Tcp { host: host.to_owned(), port }, ..self.clone() }
    }

    /// The same address and TLS for another user, on no database.
    pub(crate) fn of_user(&self, user: Option<&str>, password: Option<&str>) -> Self {
        Self { login: Login::of_user(user, password), ..self.clone() }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The host; `None` for the path of a socket.
    #[cfg(feature = "redis-tls")]
    pub(crate) fn host(&self) -> Option<&str> {
        match &self.address {
            Address::Tcp { host, .. } => Some(host),
            Address::Unix(_) => None,
        }
    }

    pub(crate) fn is_at(&self, host: &str, port: u16) -> bool {
        matches!(&self.address, Address::Tcp { host: ours, port: of_ours } if ours == host && *of_ours == port)
    }

    pub(crate) fn has_address_of(&self, other: &Self) -> bool {
        self.address == other.address
    }

    pub(crate) fn login(&self) -> &Login {
        &self.login
    }

    pub(crate) fn login_mut(&mut self) -> &mut Login {
        &mut self.login
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    #[cfg(feature = "redis-tls")]
    pub(crate) fn set_tls(&mut self, tls: &Tls) {
        self.tls = Some(tls.clone());
    }
}

/// Host and port, or the path of the socket: nothing secret.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

//! [`Server`]: what a connection to one server needs, its address, TLS and login. Servers that
//! Sentinel or a cluster names have the TLS and the login of the configured one.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo};

use super::login::Login;
use super::tls::Tls;
use crate::error::StoreError;

/// The address of one server, its TLS and its login.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Login,
}

/// The address at which a server listens.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(TcpAddress),
    Unix(PathBuf),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TcpAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Server {
    /// The server of a connection of the crate `redis`.
    ///
    /// # Errors
    ///
    /// `Misconfigured` for an unknown kind of address, and for a user without a password.
    pub(super) fn from_info(info: &ConnectionInfo, tls: Option<Tls>) -> Result<Self, StoreError> {
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Address::Tcp(TcpAddress {
                    host: host.clone(),
                    port: *port,
                })
            }
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => {
                return Err(StoreError::misconfigured(
                    "this store does not know the kind of address that this client has",
                ));
            }
        };
        Ok(Self {
            address,
            tls,
            login: Login::new(info.redis_settings())?,
        })
    }

    /// A server at another address, with this login and TLS.
    pub(crate) fn at(&self, address: &TcpAddress) -> Self {
        Self {
            address: Address::Tcp(address.clone()),
            ..self.clone()
        }
    }
}

/// Host and port, or the path of the socket. Without secrets.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

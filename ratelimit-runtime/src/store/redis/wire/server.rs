//! [`Server`]: one server at one address, and how to connect and log in to it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{ConnectionAddr, ConnectionInfo, ProtocolVersion};
use tokio::net::TcpStream;

use super::credentials::Provider;
use super::login::{Login, LoginError, Role};
use super::stream::{SocketHandle, Stream};
use super::tls::Tls;
use crate::error::StoreError;

/// The address of a server, and how to log in there.
#[derive(Clone)]
pub(crate) struct Server {
    address: Address,
    tls: Option<Tls>,
    login: Login,
}

/// A stream to a server that is logged in.
pub(crate) struct Session {
    pub(crate) stream: Stream,
    /// The server that it leads to.
    pub(crate) server: Arc<Server>,
    /// What the server answers if it does not serve.
    pub(crate) unready: Option<StoreError>,
    /// After this time another session is needed, because the credentials expire.
    pub(crate) renew_after: Option<Duration>,
}

#[derive(Clone, PartialEq, Eq)]
enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Server {
    /// The server that the client library would connect to. `None` for an address of a sort that
    /// this crate does not know.
    pub(crate) fn from_info(info: &ConnectionInfo, tls: Option<Tls>, protocol: ProtocolVersion) -> Option<Self> {
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Address::Tcp { host: host.clone(), port: *port }
            }
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => return None,
        };
        Some(Self { address, tls, login: Login::new(info.redis_settings(), protocol) })
    }

    /// The same login, TLS and settings at another address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Self {
        Self { address: Address::Tcp { host: host.to_owned(), port }, ..self.clone() }
    }

    /// The same address for another user, on no database.
    pub(crate) fn of_user(&self, user: Option<&str>, password: Option<&str>) -> Self {
        Self { login: Login::of_user(user, password), ..self.clone() }
    }

    /// The host; `None` for the path of a socket.
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

    pub(crate) fn set_provider(&mut self, provider: &Provider) {
        self.login.set_provider(provider);
    }

    pub(crate) fn set_client_name(&mut self, name: &str) {
        self.login.set_client_name(name);
    }

    #[cfg(feature = "redis-tls")]
    pub(crate) fn set_tls(&mut self, tls: &Tls) {
        self.tls = Some(tls.clone());
    }

    /// Connects, logs in, and asks whether the server serves. There is no timeout.
    pub(crate) async fn connect(self: Arc<Self>, role: Role) -> Result<Session, StoreError> {
        let mut stream = self.open().await.map_err(|error| self.unreachable(error))?;
        // Asked late, so that they are fresh.
        let credentials = self.login.credentials().await?;
        let unready = self.login.log_in(&mut stream, credentials.as_ref(), role).await;
        let unready = unready.map_err(|error| self.not_logged_in(error))?;
        let renew_after = credentials.and_then(|credentials| credentials.renew_after);
        Ok(Session { stream, server: self, unready, renew_after })
    }

    async fn open(&self) -> io::Result<Stream> {
        match &self.address {
            Address::Tcp { host, port } => {
                let tcp = TcpStream::connect((host.as_str(), *port)).await?;
                let socket = SockRef::from(&tcp);
                set_up(&socket)?;
                let socket = SocketHandle::of(&socket);
                #[cfg(feature = "redis-tls")]
                if let Some(tls) = &self.tls {
                    let (reader, writer) = tokio::io::split(tls.connect(host, tcp).await?);
                    return Ok(Stream { reader: Box::pin(reader), writer: Box::pin(writer), socket });
                }
                let (reader, writer) = tcp.into_split();
                Ok(Stream { reader: Box::pin(reader), writer: Box::pin(writer), socket })
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let unix = tokio::net::UnixStream::connect(path).await?;
                let socket = SocketHandle::of(&SockRef::from(&unix));
                let (reader, writer) = unix.into_split();
                Ok(Stream { reader: Box::pin(reader), writer: Box::pin(writer), socket })
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn unreachable(&self, error: io::Error) -> StoreError {
        if error.kind() == io::ErrorKind::InvalidData {
            let message = format!("TLS failed: check the scheme and the certificate (Redis at {self}): {error}");
            return StoreError::misconfigured(message).with_source(error);
        }
        StoreError::unavailable(format!("no connection to Redis at {self}: {error}")).with_source(error)
    }

    pub(crate) fn not_logged_in(&self, error: LoginError) -> StoreError {
        match error {
            LoginError::Lost(error) => self.unreachable(error),
            LoginError::Foreign => {
                StoreError::unavailable(format!("what answers at {self} does not speak the protocol of Redis"))
            }
            LoginError::OutOfStep => StoreError::unavailable(format!("Redis at {self} said more than it was asked")),
            LoginError::Refused(error) => error,
        }
    }

    /// What is sent first, in words.
    #[cfg(test)]
    pub(crate) fn steps(&self) -> String {
        let ready = std::pin::pin!(self.login.credentials());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(Ok(credentials)) = ready.poll(&mut cx) else { return String::new() };
        let words = |step: redis::Cmd| {
            let packed = String::from_utf8_lossy(&step.get_packed_command()).into_owned();
            packed.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        };
        self.login.steps(credentials.as_ref()).into_iter().flat_map(words).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn database(&self) -> i64 {
        self.login.database()
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
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

/// Sends without delay, and lets the kernel notice within 30 seconds that the other end is gone.
fn set_up(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(Duration::from_secs(30)))?;
    Ok(())
}

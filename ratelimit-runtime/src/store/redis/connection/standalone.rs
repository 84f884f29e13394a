//! One server at one address: how to get a connection to it that is ready for use.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, Value, cmd,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::resp::{Parsed, parse};
use super::stream::{Handle, Stream};
#[cfg(feature = "redis-tls")]
use super::tls;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::redis::errors;

/// Where a server is, and how to log in.
pub(in super::super) struct Server {
    address: Address,
    login: RedisConnectionInfo,
}

enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

const URL_FORM: &str = "the Redis URL is malformed: write redis://[user][:password]@host[:port][/database], with \
                        special characters of the password percent-encoded (`/` as %2F, `#` as %23, `?` as %3F)";

impl Server {
    /// The server that a URL names.
    ///
    /// # Errors
    ///
    /// `Misconfigured`. The message never repeats the URL, which may hold a password.
    pub(in super::super) fn from_url(url: &str) -> Result<Self, StoreError> {
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        let tls = match scheme {
            "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => false,
            "rediss" | "valkeys" if cfg!(feature = "redis-tls") => true,
            "rediss" | "valkeys" => {
                return Err(StoreError::misconfigured(
                    "a rediss:// URL needs the feature `redis-tls` of ratelimit-runtime",
                ));
            }
            _ => return Err(StoreError::misconfigured("a Redis URL starts with redis://, rediss:// or unix://")),
        };
        // TLS is done here, so the client library need not know of it.
        let plain = if tls { format!("redis{}", url.get(scheme.len()..).unwrap_or_default()) } else { url.to_owned() };
        let malformed = || StoreError::misconfigured(URL_FORM);
        if tls && url.contains('#') {
            return Err(StoreError::misconfigured("a rediss:// URL has no fragment: certificates are always checked"));
        }
        let info = plain.into_connection_info().map_err(|_| malformed())?;
        let (_, query) = url.split_once('?').unwrap_or_default();
        let chosen = query.split(['&', '#']).any(|pair| pair.starts_with("protocol="));
        let protocol = if chosen { info.redis_settings().protocol() } else { ProtocolVersion::RESP3 };
        let login = info.redis_settings().clone().set_protocol(protocol);
        Ok(Self { address: Address::of(&info, tls).ok_or_else(malformed)?, login })
    }

    /// Connects, logs in, and asks whether the server serves: the second part is what it says if it does not.
    pub(super) async fn connect(&self) -> Result<(Stream, Option<StoreError>), StoreError> {
        let mut stream = self.open().await.map_err(|error| self.unreachable(error))?;
        let said = self.log_in(&mut stream).await?;
        Ok((stream, said))
    }

    async fn open(&self) -> io::Result<Stream> {
        match &self.address {
            Address::Tcp { host, port, tls } => {
                let tcp = TcpStream::connect((host.as_str(), *port)).await?;
                let socket = SockRef::from(&tcp);
                set_up(&socket)?;
                let socket = Handle::of(&socket);
                #[cfg(feature = "redis-tls")]
                if *tls {
                    let (reader, writer) = tokio::io::split(tls::connect(host, tcp).await?);
                    return Ok(Stream { reader: Box::pin(reader), writer: Box::pin(writer), socket });
                }
                let _ = tls;
                let (reader, writer) = tcp.into_split();
                Ok(Stream { reader: Box::pin(reader), writer: Box::pin(writer), socket })
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let unix = tokio::net::UnixStream::connect(path).await?;
                let socket = Handle::of(&SockRef::from(&unix));
                let (reader, writer) = unix.into_split();
                Ok(Stream { reader: Box::pin(reader), writer: Box::pin(writer), socket })
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Logs in, chooses the database and sends a PING, in one round trip.
    async fn log_in(&self, stream: &mut Stream) -> Result<Option<StoreError>, StoreError> {
        let steps = self.steps();
        let mut packed = Vec::new();
        for step in &steps {
            step.write_packed_command(&mut packed);
        }
        let lost = |error| self.unreachable(error);
        stream.writer.write_all(&packed).await.map_err(lost)?;
        stream.writer.flush().await.map_err(lost)?;
        let (mut buffer, mut replies) = (Vec::new(), Vec::new());
        while replies.len() < steps.len() {
            match parse(&buffer) {
                Parsed::Reply(reply, taken) => {
                    buffer.drain(..taken);
                    replies.push(reply);
                    // A server that is full says so, unasked, and hangs up.
                    if let [Value::ServerError(error)] = replies.as_slice()
                        && steps.len() > 1
                    {
                        return Err(login_failed(error));
                    }
                }
                Parsed::Push(taken) => drop(buffer.drain(..taken)),
                Parsed::Incomplete => {
                    let mut chunk = [0; 1024];
                    let came = stream.reader.read(&mut chunk).await.map_err(lost)?;
                    if came == 0 {
                        return Err(lost(io::ErrorKind::UnexpectedEof.into()));
                    }
                    buffer.extend_from_slice(chunk.get(..came).unwrap_or_default());
                }
                Parsed::Malformed => {
                    return Err(StoreError::unavailable(format!(
                        "what answers at {self} does not speak the protocol of Redis"
                    )));
                }
            }
        }
        let Some((pong, others)) = replies.split_last() else { return Ok(None) };
        if let Some(error) = others.iter().find_map(as_error) {
            return Err(errors::from_server(error));
        }
        if !buffer.is_empty() {
            return Err(StoreError::unavailable(format!("Redis at {self} said more than it was asked")));
        }
        match serves(pong) {
            Err(error) if error.kind() != StoreErrorKind::Unavailable => Err(error),
            said => Ok(said.err()),
        }
    }

    fn steps(&self) -> Vec<Cmd> {
        let mut steps = Vec::with_capacity(3);
        let (user, password) = (self.login.username(), self.login.password());
        if self.login.protocol() == ProtocolVersion::RESP2 {
            if let Some(password) = password {
                let mut auth = cmd("AUTH");
                auth.arg(user).arg(password);
                steps.push(auth);
            }
        } else {
            let mut hello = cmd("HELLO");
            hello.arg(3);
            if let Some(password) = password {
                hello.arg("AUTH").arg(user.unwrap_or("default")).arg(password);
            }
            steps.push(hello);
        }
        if self.login.db() != 0 {
            steps.push(cmd("SELECT").arg(self.login.db()).take());
        }
        steps.push(cmd("PING"));
        steps
    }

    fn unreachable(&self, error: io::Error) -> StoreError {
        if error.kind() == io::ErrorKind::InvalidData {
            let message = format!("TLS failed: check the scheme and the certificate (Redis at {self}): {error}");
            return StoreError::misconfigured(message).with_source(error);
        }
        StoreError::unavailable(format!("no connection to Redis at {self}: {error}")).with_source(error)
    }

    pub(in super::super) fn database(&self) -> i64 {
        self.login.db()
    }

    pub(in super::super) fn is_tls(&self) -> bool {
        matches!(self.address, Address::Tcp { tls: true, .. })
    }
}

impl Address {
    fn of(info: &ConnectionInfo, tls: bool) -> Option<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => Some(Self::Tcp { host: host.clone(), port: *port, tls }),
            ConnectionAddr::Unix(path) => Some(Self::Unix(path.clone())),
            _ => None,
        }
    }
}

/// Host and port, or the path of the socket: nothing secret.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Sends at once, and notices within 30 seconds, by the kernel, an other end that has vanished.
fn set_up(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(Duration::from_secs(30)))?;
    Ok(())
}

fn as_error(reply: &Value) -> Option<&redis::ServerError> {
    match reply {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

fn login_failed(error: &redis::ServerError) -> StoreError {
    let text = error.details().unwrap_or_default();
    if errors::code(error) == "NOPROTO" || text.contains("unknown command") {
        return StoreError::misconfigured("Redis is older than 6.0: add ?protocol=resp2 to the URL");
    }
    if text.contains("AUTH") && errors::code(error) == "ERR" {
        return StoreError::misconfigured("Redis does not accept the user name or the password of the URL");
    }
    errors::from_server(error)
}

/// Whether the reply to a PING is that of a server that serves. A user who may not PING is being served.
pub(super) fn serves(reply: &Value) -> Result<(), StoreError> {
    match reply {
        Value::ServerError(error) if errors::code(error) != "NOPERM" => Err(errors::from_server(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn urls() {
        for (url, address) in [
            ("redis://h", "h:6379"),
            ("redis://u:p@h:1/2", "h:1"),
            ("redis://:p%2Fq@h", "h:6379"),
            ("unix:///run/redis.sock?db=1", "/run/redis.sock"),
            ("redis://[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(Server::from_url(url).unwrap().to_string(), address, "{url}");
        }
        let secret = "hunter2";
        for (url, expected) in [
            ("hunter2", "starts with redis://"),
            ("http://u:hunter2@h", "starts with redis://"),
            ("hunter2:6379", "starts with redis://"),
            ("redis://:hunter2/x@h", "percent-encoded"),
            ("redis://:hunter2#x@h", "percent-encoded"),
            ("redis://u:hunter2@h/notanumber", "percent-encoded"),
            ("redis://u:hunter2@h?protocol=hunter2", "percent-encoded"),
            ("redis://u:hunter2@", "percent-encoded"),
        ] {
            let error = Server::from_url(url).err().unwrap();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{url}");
            assert!(error.message().contains(expected), "{url}: {error}");
            assert!(!format!("{error:?}").contains(secret), "{error:?}");
        }
    }

    #[test]
    fn tls_is_said_by_the_scheme() {
        let server = Server::from_url("rediss://h:1");
        assert_eq!(server.is_ok_and(|server| server.is_tls()), cfg!(feature = "redis-tls"));
        assert!(!Server::from_url("redis://h:1").unwrap().is_tls());
        assert!(Server::from_url("rediss://h:1/#insecure").is_err());
    }

    fn first_step(url: &str) -> String {
        let step = Server::from_url(url).unwrap().steps().swap_remove(0);
        String::from_utf8(step.get_packed_command())
            .unwrap()
            .split("\r\n")
            .skip(2)
            .step_by(2)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn protocol_is_resp3_unless_chosen() {
        assert_eq!(first_step("redis://h").trim(), "HELLO 3");
        assert_eq!(first_step("redis://:p@h").trim(), "HELLO 3 AUTH default p");
        assert_eq!(first_step("redis://u:p@h/0?x=1&protocol=3").trim(), "HELLO 3 AUTH u p");
        assert_eq!(first_step("redis://u:p@h/0?protocol=resp2").trim(), "AUTH u p");
        assert_eq!(first_step("redis://:p@h/0?protocol=resp2").trim(), "AUTH p");
        assert_eq!(first_step("unix:///s?db=1&protocol=2").trim(), "SELECT 1");
    }
}

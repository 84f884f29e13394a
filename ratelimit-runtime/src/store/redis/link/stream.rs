//! Opens streams to a server: TCP, TLS or a Unix socket, each step within a time of its own.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, Socket, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::store::redis::settings::server::{Address, Server, TcpAddress};

/// The time to connect to one address: where packets are lost, a SYN is sent again after a second.
const CONNECT: Duration = Duration::from_secs(2);
/// The time to look up a name, and the time to set up TLS.
const SET_UP: Duration = Duration::from_secs(5);

/// The advice if the server speaks no TLS.
pub(super) const PLAIN: &str = "for a server without TLS, write `redis` in place of `rediss`";

pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A stream, and its socket if it is TCP within this machine.
pub(super) type Opened = (Box<dyn ByteStream>, Option<Socket>);

/// Connects to a server, with TLS if it is set. The name is looked up each time, and all its
/// addresses are tried.
pub(super) async fn open(server: &Server) -> io::Result<Opened> {
    match &server.address {
        Address::Tcp(address) => {
            let tcp = open_tcp(address).await?;
            let is_local = tcp.peer_addr()?.ip() == tcp.local_addr()?.ip();
            let socket = is_local.then(|| SockRef::from(&tcp).try_clone().ok());
            #[cfg(feature = "redis-tls")]
            if let Some(tls) = &server.tls {
                // Redis without TLS waits for the end of a line.
                let hint = |late: io::Error| {
                    io::Error::new(io::ErrorKind::TimedOut, format!("{late}: {PLAIN}"))
                };
                let tls = within(SET_UP, tls.connect(&address.host, tcp)).await;
                let tls = tls.map_err(hint)??;
                return Ok((Box::new(tls), socket.flatten()));
            }
            Ok((Box::new(tcp), socket.flatten()))
        }
        #[cfg(unix)]
        Address::Unix(path) => {
            let unix = within(CONNECT, tokio::net::UnixStream::connect(path)).await??;
            Ok((Box::new(unix), None))
        }
        #[cfg(not(unix))]
        Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

async fn open_tcp(address: &TcpAddress) -> io::Result<TcpStream> {
    let mut error = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in look_up(address).await? {
        match within(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return set_up(&tcp).map(|()| tcp),
            Ok(Err(refused)) | Err(refused) => error = refused,
        }
    }
    Err(error)
}

async fn look_up(TcpAddress { host, port }: &TcpAddress) -> io::Result<Vec<SocketAddr>> {
    let found = within(SET_UP, lookup_host((host.as_str(), *port))).await?;
    Ok(found?.collect())
}

/// `true` if both are the same, or names of one address.
pub(super) async fn lead_to_one(one: &TcpAddress, other: &TcpAddress) -> bool {
    let found = async || Ok::<_, io::Error>((look_up(one).await?, look_up(other).await?));
    one == other
        || found()
            .await
            .is_ok_and(|(one, other)| one.iter().any(|address| other.contains(address)))
}

/// Waits for `future`, for at most `time`.
pub(super) async fn within<T>(time: Duration, future: impl Future<Output = T>) -> io::Result<T> {
    let late = |_| {
        io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {time:?}"),
        )
    };
    tokio::time::timeout(time, future).await.map_err(late)
}

/// Sends without delay, and lets the kernel notice within 30 seconds that the other end is gone.
fn set_up(tcp: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(tcp);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(Duration::from_secs(30)))?;
    Ok(())
}

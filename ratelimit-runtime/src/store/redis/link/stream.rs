//! Streams to a server: TCP, TLS or a Unix socket, and [`NotedStream`], which notes what comes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};

use super::vitals::Vitals;
use crate::real_time;
use crate::store::redis::settings::server::{Address, Server, TcpAddress};

/// The time to connect to one address: a network that swallows packets sends a SYN again after one
/// second.
const CONNECT: Duration = Duration::from_secs(2);
/// The time to look up a name.
const LOOK_UP: Duration = Duration::from_secs(5);

pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A socket that is connected to a server, before TLS.
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Socket {
    /// Connects to a server. Its name is looked up each time, and all its addresses are tried.
    pub(super) async fn connect(server: &Server) -> io::Result<Self> {
        match &server.address {
            Address::Tcp(TcpAddress { host, port }) => {
                let mut error = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
                for address in within(LOOK_UP, lookup_host((host.as_str(), *port))).await? {
                    match within(CONNECT, TcpStream::connect(address)).await {
                        Ok(tcp) => return set_up(&tcp).map(|()| Self::Tcp(tcp)),
                        Err(refused) => error = refused,
                    }
                }
                Err(error)
            }
            #[cfg(unix)]
            Address::Unix(path) => within(CONNECT, tokio::net::UnixStream::connect(path)).await.map(Self::Unix),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Speaks TLS on it where the server asks for that.
    #[cfg_attr(not(feature = "redis-tls"), allow(clippy::unused_async, unused_variables, reason = "as with TLS"))]
    pub(super) async fn secure(self, server: &Server) -> io::Result<Box<dyn ByteStream>> {
        match self {
            Self::Tcp(tcp) => {
                #[cfg(feature = "redis-tls")]
                if let (Some(tls), Address::Tcp(address)) = (&server.tls, &server.address) {
                    return Ok(Box::new(tls.connect(&address.host, tcp).await?));
                }
                Ok(Box::new(tcp))
            }
            #[cfg(unix)]
            Self::Unix(unix) => Ok(Box::new(unix)),
        }
    }
}

async fn within<T>(time: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {time:?}")));
    real_time::timeout_at(Instant::now() + time, future).await.unwrap_or_else(late)
}

/// Sends without delay, and lets the kernel notice within 30 seconds that the other end is gone.
fn set_up(tcp: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(tcp);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(Duration::from_secs(30)))?;
    Ok(())
}

/// A stream that notes when bytes come, which come first, and how it ends.
pub(super) struct NotedStream {
    pub(super) stream: Box<dyn ByteStream>,
    pub(super) vitals: Arc<Vitals>,
}

impl AsyncRead for NotedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        match &result {
            Poll::Ready(Ok(())) => self.vitals.note_read(buffer.filled().get(before..).unwrap_or_default()),
            Poll::Ready(Err(error)) => self.vitals.note_error(error),
            Poll::Pending => {}
        }
        result
    }
}

impl AsyncWrite for NotedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Err(error)) = &result {
            self.vitals.note_error(error);
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

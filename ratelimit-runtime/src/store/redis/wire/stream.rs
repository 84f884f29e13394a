//! A stream of bytes to a server and back, whatever it runs over: TCP, TLS or a Unix socket.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;

use redis::io::tcp::socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) type ReadHalf = Pin<Box<dyn AsyncRead + Send>>;
pub(crate) type WriteHalf = Pin<Box<dyn AsyncWrite + Send>>;

pub(crate) struct Stream {
    pub(crate) reader: ReadHalf,
    pub(crate) writer: WriteHalf,
    pub(crate) socket: SocketHandle,
}

/// The socket beneath a stream, to look at past TLS and buffers.
#[derive(Debug)]
pub(crate) struct SocketHandle(Option<Socket>);

impl SocketHandle {
    pub(crate) fn of(socket: &SockRef<'_>) -> Self {
        Self(socket.try_clone().ok())
    }

    /// Whether nothing has come, not even the end: on an idle connection, whatever has come is its
    /// end. Asks the system, because the runtime may not have been told yet.
    pub(crate) fn is_quiet(&self) -> bool {
        let Some(socket) = &self.0 else { return true };
        match socket.peek(&mut [MaybeUninit::uninit()]) {
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            Ok(_) => false,
        }
    }
}

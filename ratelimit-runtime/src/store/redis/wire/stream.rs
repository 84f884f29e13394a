//! A stream of bytes to a server and back, whatever it runs over: TCP, TLS or a Unix socket.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;

use redis::io::tcp::socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncWrite};

pub(super) type Reader = Pin<Box<dyn AsyncRead + Send>>;
pub(crate) type Writer = Pin<Box<dyn AsyncWrite + Send>>;

pub(crate) struct Stream {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) socket: Handle,
}

/// The socket beneath, to look at it past everything that is above it.
#[derive(Debug)]
pub(crate) struct Handle(Option<Socket>);

impl Handle {
    pub(crate) fn of(socket: &SockRef<'_>) -> Self {
        Self(socket.try_clone().ok())
    }

    /// Whether nothing has come, not even the end: of an idle connection anything that has come is its end. The system
    /// is asked itself, for the runtime may not have been told yet.
    pub(crate) fn is_quiet(&self) -> bool {
        let Some(socket) = &self.0 else { return true };
        match socket.peek(&mut [MaybeUninit::uninit()]) {
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            Ok(_) => false,
        }
    }
}

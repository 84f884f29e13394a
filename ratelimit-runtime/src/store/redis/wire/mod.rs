//! Bytes and a server: a stream, the login on it, what is asked and the replies that are read.

pub(super) mod commands;
pub(super) mod credentials;
pub(super) mod incoming;
pub(super) mod login;
pub(super) mod resp;
pub(super) mod server;
pub(super) mod slot;
pub(super) mod stream;
#[cfg(feature = "redis-tls")]
pub(super) mod tls;

/// Without the feature `redis-tls` there is none.
#[cfg(not(feature = "redis-tls"))]
pub(super) mod tls {
    pub(crate) use std::convert::Infallible as Tls;

    pub(crate) const PLATFORM: Option<Tls> = None;
}

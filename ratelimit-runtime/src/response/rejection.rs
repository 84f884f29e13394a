//! [`KeyRejection`]: why a request has no key.

use std::fmt;

use crate::error::RateLimitError;

/// Why a request has no key to be limited by, which is an answer in each framework, as the
/// [`Responses`](crate::Responses) of the limiter in force have it: without a key, requests would
/// share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyRejection {
    /// The header of this name is missing or empty, and it is a [`HeaderKey`](crate::HeaderKey).
    /// Answered 400, or 401 with [`Responses::unauthorized`](crate::Responses::unauthorized).
    MissingHeader(&'static str),
    /// That header appears more than once. Answered 400.
    RepeatedHeader(&'static str),
    /// The framework does not know the other end of the connection, so there is no
    /// [`ClientIp`](crate::ClientIp). Answered 500: the server is set up wrongly, or listens on a
    /// Unix socket.
    UnknownPeer,
    /// A trusted proxy named no client, and
    /// [`TrustedProxies::strict`](crate::TrustedProxies::strict) is set. Answered 400.
    UnnamedClient,
}

impl KeyRejection {
    /// The mistake in the setup, if that is the reason.
    pub(crate) fn misconfigured(self) -> Option<RateLimitError> {
        (self == Self::UnknownPeer).then(|| RateLimitError::misconfigured(self.to_string()))
    }
}

impl fmt::Display for KeyRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHeader(name) => write!(f, "the header {name} is missing"),
            Self::RepeatedHeader(name) => write!(f, "the header {name} appears more than once"),
            Self::UnknownPeer => f.write_str(
                "the address of the client is not known: an axum router is to be served with \
                 `into_make_service_with_connect_info::<SocketAddr>()`, and connections on Unix \
                 sockets have none",
            ),
            Self::UnnamedClient => f.write_str(
                "the address of the client is not known: the proxy in between names none",
            ),
        }
    }
}

impl std::error::Error for KeyRejection {}

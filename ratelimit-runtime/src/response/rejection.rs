//! [`KeyRejection`]: the reason why a request has no key.

use std::fmt;

use crate::error::RateLimitError;

/// The reason why a request has no key to be limited by. The request is refused, as the
/// [`Responses`](crate::Responses) of the limiter in force say: without a key, requests would share
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyRejection {
    /// The header of this name, which a [`HeaderKey`](crate::HeaderKey) reads, is missing or empty.
    /// Answered 400, or 401 with [`Responses::unauthorized`](crate::Responses::unauthorized).
    MissingHeader(&'static str),
    /// The header of this name appears more than once. Answered 400.
    RepeatedHeader(&'static str),
    /// The framework does not know the other end of the connection, so there is no
    /// [`ClientIp`](crate::ClientIp), and
    /// [`TrustedProxies::any_peer`](crate::TrustedProxies::any_peer) is not set. The text names
    /// what the framework needs, or is empty. Answered 500: the server is set up wrongly, or
    /// listens on a Unix socket.
    UnknownPeer(&'static str),
    /// A trusted proxy named no client, and it has no address, or
    /// [`TrustedProxies::strict`](crate::TrustedProxies::strict) is set. Answered 400.
    UnnamedClient,
}

impl KeyRejection {
    /// The error for the log, if a mistake in the setup is the reason.
    pub(crate) fn misconfigured(self) -> Option<RateLimitError> {
        matches!(self, Self::UnknownPeer(_))
            .then(|| RateLimitError::misconfigured(self.to_string()))
    }
}

impl fmt::Display for KeyRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingHeader(name) => write!(f, "the header {name} is missing"),
            Self::RepeatedHeader(name) => write!(f, "the header {name} appears more than once"),
            Self::UnknownPeer(needs) => write!(
                f,
                "the address of the client is not known: {needs}Connections on Unix sockets have \
                 none; where a proxy is their only peer, set \
                 `TrustedProxies::default().any_peer()`",
            ),
            Self::UnnamedClient => f.write_str(
                "the address of the client is not known: the proxy in between names none",
            ),
        }
    }
}

impl std::error::Error for KeyRejection {}

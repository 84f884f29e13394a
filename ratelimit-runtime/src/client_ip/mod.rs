//! [`ClientIp`]: whose address a request comes from, behind [`TrustedProxies`].

mod address;
mod forwarded;
mod trusted_proxies;

use std::fmt;
use std::net::IpAddr;

pub(crate) use self::trusted_proxies::Lines;
pub use self::trusted_proxies::TrustedProxies;
use crate::error::RateLimitError;
#[cfg(feature = "_layer")]
use crate::key::Key;
use crate::key::{KeyPart, KeyWriter};

/// The address of the client: that of the connection, or, if the connection comes from one of the
/// [`TrustedProxies`], the one that they report. The headers of any other peer are not read.
///
/// It is an extractor of axum, actix-web and poem, `ClientIp::try_from(&request)?` in layers and in
/// tonic, [`ClientIp::of`] elsewhere, and part of a key: as an [`IpAddr`] it stands for the
/// subscriber, so for IPv6 the /64. [`by_client_ip`](crate::by_client_ip) is the key function of a
/// layer.
///
/// ```
/// use ratelimit_runtime::{ClientIp, RateLimitError, rate_limit};
///
/// #[rate_limit(key = "<ip>", window = "60s", max = 10)]
/// async fn sign_up(ip: ClientIp) -> Result<(), RateLimitError> {
///     Ok(())
/// }
/// # let _ = sign_up;
/// ```
///
/// With axum, serve with `into_make_service_with_connect_info::<SocketAddr>()`; else the address is
/// not known, and the extractor answers 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientIp(pub IpAddr);

#[diagnostic::do_not_recommend]
impl KeyPart for ClientIp {
    fn write_key(&self, key: &mut KeyWriter<'_>) {
        self.0.write_key(key);
    }
}

impl fmt::Display for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why there is no [`ClientIp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientIpRejection {
    /// The framework does not know the other end of the connection. Answered 500: the server is set
    /// up wrongly, or listens on a Unix socket.
    UnknownPeer,
    /// A trusted proxy named no client, and [`TrustedProxies::strict`] is set. Answered 400.
    UnnamedClient,
}

impl ClientIpRejection {
    /// What is set up wrongly, if that is the reason.
    pub(crate) fn misconfigured(self) -> Option<RateLimitError> {
        (self == Self::UnknownPeer).then(|| RateLimitError::misconfigured(self.to_string()))
    }
}

impl fmt::Display for ClientIpRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPeer => {
                "the address of the client is not known: an axum router is to be served with \
                 `into_make_service_with_connect_info::<SocketAddr>()`, and connections on Unix sockets have none"
            }
            Self::UnnamedClient => "the address of the client is not known: the proxy in between names none",
        })
    }
}

impl std::error::Error for ClientIpRejection {}

/// The key function of a [`RateLimitLayer`](crate::RateLimitLayer) that limits by [`ClientIp`], in
/// every framework. A request without a known address is answered 500, or 400 where
/// [`TrustedProxies::strict`] says so, and never shares a bucket with others.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::Router;
/// use axum::routing::get;
/// use ratelimit_runtime::{Limit, RateLimitLayer, Rule, by_client_ip};
///
/// static PER_IP: Rule = Rule::new("per-ip", Limit::per_minute(60));
///
/// let app: Router =
///     Router::new().route("/", get(|| async { "hello" })).layer(RateLimitLayer::new().rule(&PER_IP, by_client_ip));
/// # let _ = app;
/// # }
/// ```
///
/// # Errors
///
/// [`ClientIpRejection`] when the address is not known.
#[cfg(feature = "_layer")]
pub fn by_client_ip<Q>(request: &Q) -> Result<Key, ClientIpRejection>
where
    for<'a> ClientIp: TryFrom<&'a Q, Error = ClientIpRejection>,
{
    ClientIp::try_from(request).map(|ip| Key::of(&ip))
}

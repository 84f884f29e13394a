//! [`ClientIp`]: the address of a request's client, behind [`TrustedProxies`].

mod address;
mod forwarded;
mod trusted_proxies;

use std::fmt;
use std::net::IpAddr;

pub(crate) use self::trusted_proxies::Lines;
pub use self::trusted_proxies::TrustedProxies;
#[cfg(feature = "_layer")]
use crate::key::Key;
use crate::key::{KeyKind, KeyPart, KeyWriter};
#[cfg(feature = "_layer")]
use crate::response::KeyRejection;

/// The address of the client: that of the connection or, if the connection comes from one of the
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
/// not known, and the extractor answers 500. So it does on a Unix socket, unless the proxy behind
/// it is trusted by [`TrustedProxies::any_peer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientIp(pub IpAddr);

#[diagnostic::do_not_recommend]
impl KeyPart for ClientIp {
    const KIND: KeyKind = IpAddr::KIND;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        self.0.write_key(key);
    }
}

impl fmt::Display for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The key function of a [`RateLimitLayer`](crate::RateLimitLayer) that limits by [`ClientIp`], in
/// every framework. If the connection has no known address, the request is answered 500. If a
/// trusted proxy names no client, the key is the proxy's own address, which such clients share; or
/// the request is answered 400, if the proxy has none or [`strict`](TrustedProxies::strict) is set.
/// `ratelimit-admin find` fills such keys of a rule whose
/// [`with_template`](crate::Rule::with_template) is `"<ip>"`, of a
/// [`KeyKind::Address`](crate::KeyKind::Address).
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
/// [`KeyRejection`] for such an answer.
#[cfg(feature = "_layer")]
pub fn by_client_ip<Q>(request: &Q) -> Result<Key, KeyRejection>
where
    for<'a> ClientIp: TryFrom<&'a Q, Error = KeyRejection>,
{
    ClientIp::try_from(request).map(|ip| Key::of(&ip))
}

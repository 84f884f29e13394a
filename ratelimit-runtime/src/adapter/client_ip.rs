//! [`ClientIp`] of what a framework knows of a request: the other end of its connection, and its
//! header fields. Which proxies are trusted is decided here, once for all frameworks.

use std::net::IpAddr;
#[cfg(feature = "axum")]
use std::net::SocketAddr;

#[cfg(feature = "axum")]
use axum::extract::{ConnectInfo, connect_info::MockConnectInfo};
#[cfg(feature = "tonic")]
use tonic::{Request, metadata::MetadataMap};

use crate::client_ip::{ClientIp, Lines, TrustedProxies};
use crate::limiter::find;
use crate::response::KeyRejection;

/// The client of a request on a connection from `peer`, or the reason why it is unknown. `proxies`
/// are those of this part of the server; `None` stands for those of the limiter in force.
pub(super) fn client_ip<'a>(
    peer: Result<IpAddr, KeyRejection>,
    proxies: Option<&TrustedProxies>,
    lines: impl Fn(&str) -> Lines<'a>,
) -> Result<ClientIp, KeyRejection> {
    match proxies {
        Some(proxies) => proxies.client_of(peer, lines),
        None => find::trusted_proxies().client_of(peer, lines),
    }
}

/// The lines of a header of the crate `http`.
pub(super) fn lines<'a>(headers: &'a http::HeaderMap) -> impl Fn(&str) -> Lines<'a> {
    move |name| {
        headers
            .get_all(name)
            .iter()
            .map(http::HeaderValue::as_bytes)
            .collect()
    }
}

/// The address at the other end of the connection, by axum or tonic: either may serve routes of the
/// other.
#[cfg(any(feature = "axum", feature = "tonic"))]
pub(super) fn peer(extensions: &http::Extensions) -> Option<IpAddr> {
    let peer = None;
    #[cfg(feature = "axum")]
    let peer = peer.or_else(|| of_axum(extensions));
    #[cfg(feature = "tonic")]
    let peer = peer.or_else(|| of_tonic(extensions));
    peer
}

/// The address that axum has recorded, or a test has set in its place.
#[cfg(feature = "axum")]
fn of_axum(extensions: &http::Extensions) -> Option<IpAddr> {
    let connected = extensions.get().map(|ConnectInfo(peer)| *peer);
    let peer: Option<SocketAddr> =
        connected.or_else(|| extensions.get().map(|MockConnectInfo(peer)| *peer));
    peer.map(|peer| peer.ip())
}

/// With TLS or without.
#[cfg(feature = "tonic")]
fn of_tonic(extensions: &http::Extensions) -> Option<IpAddr> {
    let peer = Request::from_parts(MetadataMap::new(), extensions.clone(), ()).remote_addr();
    peer.map(|peer| peer.ip())
}

//! [`ClientIp`] of what a framework knows of a request.

use std::net::IpAddr;

use crate::client_ip::{ClientIp, Lines, TrustedProxies};
use crate::limiter::find;
use crate::response::KeyRejection;

/// The client of a request on a connection from `peer`, or why that is not known. `proxies` are
/// those that were set for this part of the server; without any, those of the limiter in force
/// count.
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

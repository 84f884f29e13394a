//! Addresses as proxies write them into header fields: with or without a port, brackets, or IPv4
//! inside IPv6, so that one client has one key.

use std::net::{IpAddr, SocketAddr};

/// Parses `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:4711`; an
/// IPv4 address written as IPv6 becomes IPv4.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(text.trim_ascii()).ok()?;
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let address = bare
        .parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

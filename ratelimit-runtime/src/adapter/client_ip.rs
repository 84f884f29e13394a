//! [`ClientIp`]: whose address a request comes from, behind proxies that are trusted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::HeaderName;
use http::header::HeaderMap;
use ipnet::IpNet;

#[cfg(any(feature = "actix-web", feature = "axum", feature = "poem", feature = "tonic"))]
use crate::RateLimitError;
use crate::key::{KeyPart, KeyWriter};

/// The address of the client: that of the connection, or, if the connection comes from one of the [`TrustedProxies`], the
/// one that they vouch for. A header that anybody can send is never believed.
///
/// It is an extractor of axum, actix-web and poem, `ClientIp::try_from(&request)?` elsewhere, and part of a key: as an
/// [`IpAddr`] it stands for the subscriber, so for IPv6 the /64.
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
/// With axum, serve with `into_make_service_with_connect_info::<SocketAddr>()`; else the address is not known, and the
/// extractor answers 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientIp(pub IpAddr);

impl ClientIp {
    /// From what a framework knows of a request.
    #[cfg(any(feature = "actix-web", feature = "axum", feature = "poem", feature = "tonic"))]
    pub(super) fn of(
        peer: Option<SocketAddr>,
        proxies: Option<&TrustedProxies>,
        headers: &HeaderMap,
    ) -> Result<Self, RateLimitError> {
        let peer = peer.ok_or_else(|| {
            RateLimitError::misconfigured(
                "the address of the client is not known: an axum router is to be served with \
                 `into_make_service_with_connect_info::<SocketAddr>()`, and connections on Unix sockets have none",
            )
        })?;
        Ok(proxies.unwrap_or(&TrustedProxies::default()).client_ip(peer.ip(), headers))
    }
}

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

/// The proxies whose word on the client's address is taken. None, unless this is set up:
/// `RateLimitLayer::trusted_proxies` for axum and tower, `app_data` for actix-web,
/// `data` for poem.
///
/// From the right end of `X-Forwarded-For`, where the nearest proxy writes, addresses of trusted proxies are skipped; the
/// first other one is the client. What stands further left was sent by the client, and says nothing.
///
/// ```
/// use ratelimit_runtime::TrustedProxies;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let behind_a_balancer = TrustedProxies::new(["10.0.0.0/8", "fd00::/8"])?;
/// let behind_a_cdn = TrustedProxies::new(["173.245.48.0/20"])?.single_address_in("cf-connecting-ip")?;
/// # let _ = (behind_a_balancer, behind_a_cdn);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    networks: Arc<[IpNet]>,
    /// A header with one address; without it, `X-Forwarded-For`.
    single: Option<HeaderName>,
}

/// What was given is neither an address, nor a network, nor the name of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidProxy(String);

impl fmt::Display for InvalidProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidProxy {}

/// More addresses than any chain of proxies adds: the rest was sent by the client.
const MOST_HOPS: usize = 32;

impl TrustedProxies {
    /// Proxies with these addresses (`"10.1.2.3"`) or in these networks (`"10.0.0.0/8"`).
    ///
    /// # Errors
    ///
    /// If one of them is neither.
    pub fn new(networks: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, InvalidProxy> {
        let parse = |text: &str| {
            let network = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
            network
                .ok_or_else(|| InvalidProxy(format!("{text:?} is neither an IP address nor a network like 10.0.0.0/8")))
        };
        let networks = networks.into_iter().map(|text| parse(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { networks, single: None })
    }

    /// Takes the client's address from this header, which the proxy overwrites with the one address that it saw.
    ///
    /// # Errors
    ///
    /// If a header cannot have that name.
    pub fn single_address_in(mut self, header: &str) -> Result<Self, InvalidProxy> {
        let name = header.parse().map_err(|_| InvalidProxy(format!("{header:?} cannot be the name of a header")))?;
        self.single = Some(name);
        Ok(self)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Where a request on a connection from `peer` comes from.
    #[must_use]
    pub fn client_ip(&self, peer: IpAddr, headers: &HeaderMap) -> ClientIp {
        let mut client = peer.to_canonical();
        if !self.trusts(client) {
            return ClientIp(client);
        }
        if let Some(name) = &self.single {
            let mut values = headers.get_all(name).iter();
            // Two of them: one is the client's.
            if let (Some(value), None) = (values.next(), values.next()) {
                client = value.to_str().ok().and_then(address).unwrap_or(client);
            }
            return ClientIp(client);
        }
        let lines = headers.get_all("x-forwarded-for").iter().rev();
        let hops = lines.flat_map(|line| line.to_str().unwrap_or("?").rsplit(','));
        for hop in hops.take(MOST_HOPS) {
            // Whoever wrote something else than an address is the last that is known.
            let Some(address) = address(hop) else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        ClientIp(client)
    }
}

/// An address, which some proxies write with a port, or IPv6 in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn client(proxies: &TrustedProxies, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        proxies.client_ip(peer.parse().unwrap(), &map).to_string()
    }

    #[test]
    fn nobody_is_believed_unless_trusted() {
        let forged = &[("x-forwarded-for", "1.1.1.1"), ("x-real-ip", "1.1.1.1")];
        assert_eq!(client(&TrustedProxies::default(), "9.9.9.9", forged), "9.9.9.9");
        let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap();
        assert_eq!(client(&proxies, "9.9.9.9", forged), "9.9.9.9");
        assert_eq!(client(&proxies, "::ffff:9.9.9.9", forged), "9.9.9.9");
    }

    #[test]
    fn the_client_is_the_first_from_the_right_that_is_no_proxy() {
        let proxies = TrustedProxies::new(["10.0.0.0/8", "2001:db8::1"]).unwrap();
        for (expected, peer, lines) in [
            ("9.9.9.9", "10.0.0.1", &["9.9.9.9"][..]),
            ("9.9.9.9", "::ffff:10.0.0.1", &["9.9.9.9"]),
            ("9.9.9.9", "10.0.0.1", &["1.1.1.1, 9.9.9.9, 10.0.0.2"]),
            ("9.9.9.9", "10.0.0.1", &["1.1.1.1", "9.9.9.9,10.0.0.2", "10.0.0.3"]),
            ("9.9.9.9", "2001:db8::1", &["9.9.9.9:4711"]),
            ("2001:db8::9", "10.0.0.1", &["[2001:db8::9]:4711"]),
            ("2001:db8::9", "10.0.0.1", &["[2001:db8::9]"]),
            // All are proxies: the furthest is what is known.
            ("10.0.0.3", "10.0.0.1", &["10.0.0.3, 10.0.0.2"]),
            ("10.0.0.1", "10.0.0.1", &[]),
            // What is no address ends the chain of those who vouch.
            ("10.0.0.2", "10.0.0.1", &["9.9.9.9, unknown, 10.0.0.2"]),
            ("10.0.0.1", "10.0.0.1", &["9.9.9.9, "]),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
            assert_eq!(client(&proxies, peer, &headers), expected, "{lines:?}");
        }
        let endless = vec!["10.0.0.2"; 10_000].join(",");
        assert_eq!(client(&proxies, "10.0.0.1", &[("x-forwarded-for", &endless)]), "10.0.0.2");
    }

    #[test]
    fn a_header_with_one_address_is_taken_from_a_proxy_that_overwrites_it() {
        let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap().single_address_in("X-Real-IP").unwrap();
        assert_eq!(client(&proxies, "10.0.0.1", &[("x-real-ip", "9.9.9.9")]), "9.9.9.9");
        assert_eq!(client(&proxies, "8.8.8.8", &[("x-real-ip", "9.9.9.9")]), "8.8.8.8");
        assert_eq!(client(&proxies, "10.0.0.1", &[("x-real-ip", "9.9.9.9"), ("x-real-ip", "1.1.1.1")]), "10.0.0.1");
        assert_eq!(client(&proxies, "10.0.0.1", &[("x-forwarded-for", "9.9.9.9")]), "10.0.0.1");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(TrustedProxies::new(["10.0.0.0/33"]).unwrap_err().to_string().contains("10.0.0.0/33"));
        assert!(TrustedProxies::new([""; 0]).unwrap().single_address_in("x y").is_err());
    }
}

//! [`TrustedProxies`]: the proxies whose forwarding headers are trusted.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use http::HeaderName;
use http::header::HeaderMap;
use ipnet::{IpNet, Ipv4Net};
use smallvec::SmallVec;

use super::address::address;
use super::{ClientIp, ClientIpRejection, forwarded};
use crate::observe;

/// Proxies whose forwarding headers [`ClientIp`] trusts. None by default.
///
/// [`RateLimiterBuilder::trusted_proxies`](crate::RateLimiterBuilder::trusted_proxies) sets them
/// wherever that limiter is [in force](crate::RateLimiter::current). For a part of a server another
/// value takes its place, by `RateLimitLayer::trusted_proxies`, or as `app_data` of actix-web or
/// `data` of poem.
///
/// From the right end of `Forwarded` (RFC 7239) and `X-Forwarded-For`, where the nearest proxy
/// writes, addresses of trusted proxies are skipped; the first other one is the client. What stands
/// further left was sent by the client, and says nothing.
///
/// - Where a request has both header fields, they are read side by side, and count as far as they
///   agree: at the first difference the nearest address that both name, or else the proxy, is the
///   client's. A proxy that writes one of them and passes on the other as the client sent it lets
///   clients bring that about: let it remove the other, or say here which one it writes, by
///   [`forwarded_only`](Self::forwarded_only) or
///   [`x_forwarded_for_only`](Self::x_forwarded_for_only).
/// - A trusted proxy may name no client: neither field, `unknown`, an obfuscated identifier,
///   something else than an address, or two answers. Then its own address stands for all its
///   clients, which share their limits. The event `no_client` says so, once for each reason; with
///   [`strict`](Self::strict), such requests are answered 400.
///
/// ```
/// use ratelimit_runtime::{RateLimiter, TrustedProxies};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let behind_a_balancer = TrustedProxies::new(["10.0.0.0/8", "fd00::/8"])?.x_forwarded_for_only();
/// let behind_a_cdn = TrustedProxies::new(["173.245.48.0/20"])?.single_address_in("cf-connecting-ip")?;
/// let limiter = RateLimiter::builder().trusted_proxies(behind_a_balancer).build()?;
/// # let _ = (limiter, behind_a_cdn);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    networks: Arc<[IpNet]>,
    fields: Fields,
    strict: bool,
    /// A bit for each [`Unnamed`] that was logged.
    logged: Arc<AtomicU8>,
}

/// The header fields that are read.
#[derive(Debug, Clone, Default)]
enum Fields {
    #[default]
    Both,
    Forwarded,
    XForwardedFor,
    /// One with a single address.
    Single(HeaderName),
}

/// The lines of a header field, in the order in which they were sent.
pub(crate) type Lines<'a> = SmallVec<[&'a [u8]; 4]>;

/// Why a request of a trusted proxy has no address that is not a proxy's.
#[derive(Debug, Clone, Copy)]
enum Unnamed {
    NoHeader,
    NoAddress,
    Disagreement,
}

impl Unnamed {
    fn as_str(self) -> &'static str {
        match self {
            Self::NoHeader => "no_header",
            Self::NoAddress => "no_address",
            Self::Disagreement => "disagreement",
        }
    }
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
    /// Proxies with these addresses (`"10.1.2.3"`) or in these networks (`"10.0.0.0/8"`). IPv4 that
    /// is written as IPv6 is IPv4: `"::ffff:10.0.0.0/104"` is `"10.0.0.0/8"`.
    ///
    /// # Errors
    ///
    /// If one of them is neither.
    pub fn new(networks: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, InvalidProxy> {
        let networks = networks.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { networks, ..Self::default() })
    }

    /// Reads `Forwarded` alone: for proxies that pass on `X-Forwarded-For` as the client sent it.
    #[must_use]
    pub fn forwarded_only(mut self) -> Self {
        self.fields = Fields::Forwarded;
        self
    }

    /// Reads `X-Forwarded-For` alone: for proxies that pass on `Forwarded` as the client sent it.
    #[must_use]
    pub fn x_forwarded_for_only(mut self) -> Self {
        self.fields = Fields::XForwardedFor;
        self
    }

    /// Takes the client's address from this header alone, which the proxy overwrites with the one
    /// address that it saw.
    ///
    /// # Errors
    ///
    /// If a header cannot have that name, or is `Forwarded`, whose lines are not single addresses.
    pub fn single_address_in(mut self, header: &str) -> Result<Self, InvalidProxy> {
        let name: HeaderName =
            header.parse().map_err(|_| InvalidProxy(format!("{header:?} cannot be the name of a header")))?;
        if name == http::header::FORWARDED {
            return Err(InvalidProxy("`Forwarded` does not hold a single address: use `forwarded_only()`".to_owned()));
        }
        self.fields = Fields::Single(name);
        Ok(self)
    }

    /// Whether requests of a trusted proxy that names no client are answered 400, in place of
    /// sharing the limits of the proxy's own address. Off unless set. Health checks that a proxy
    /// makes itself name no client either.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Where a request on a connection from `peer` comes from.
    ///
    /// # Errors
    ///
    /// [`ClientIpRejection::UnnamedClient`], and only where this is [`strict`](Self::strict).
    pub fn client_ip(&self, peer: IpAddr, headers: &HeaderMap) -> Result<ClientIp, ClientIpRejection> {
        self.client_of(peer, |name| headers.get_all(name).iter().map(http::HeaderValue::as_bytes).collect())
    }

    /// The same with the header fields of any framework.
    pub(crate) fn client_of<'a>(
        &self,
        peer: IpAddr,
        lines: impl Fn(&str) -> Lines<'a>,
    ) -> Result<ClientIp, ClientIpRejection> {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return Ok(ClientIp(peer));
        }
        match self.named(peer, lines) {
            Ok(client) => Ok(ClientIp(client)),
            Err((proxy, reason)) => {
                self.log_once(proxy, reason);
                if self.strict { Err(ClientIpRejection::UnnamedClient) } else { Ok(ClientIp(proxy)) }
            }
        }
    }

    /// The client that proxies name, or the last proxy that is known, and why nothing is known
    /// beyond it.
    fn named<'a>(&self, peer: IpAddr, lines: impl Fn(&str) -> Lines<'a>) -> Result<IpAddr, (IpAddr, Unnamed)> {
        let (forwarded, x_forwarded_for) = match &self.fields {
            Fields::Both => (lines("forwarded"), lines("x-forwarded-for")),
            Fields::Forwarded => (lines("forwarded"), Lines::new()),
            Fields::XForwardedFor => (Lines::new(), lines("x-forwarded-for")),
            Fields::Single(name) => return single(&lines(name.as_str())).map_err(|reason| (peer, reason)),
        };
        let mut forwarded = forwarded.into_iter().rev().flat_map(forwarded::hops);
        let mut x_forwarded_for =
            x_forwarded_for.into_iter().rev().flat_map(|line| line.rsplit(|&byte| byte == b',').map(address));
        let mut proxy = peer;
        for _ in 0..MOST_HOPS {
            let hop = match (forwarded.next(), x_forwarded_for.next()) {
                (None, None) => break,
                (Some(one), Some(other)) if one != other => return Err((proxy, Unnamed::Disagreement)),
                (Some(hop), _) | (None, Some(hop)) => hop,
            };
            match hop {
                Some(address) if self.trusts(address) => proxy = address,
                Some(client) => return Ok(client),
                None => return Err((proxy, Unnamed::NoAddress)),
            }
        }
        Err((proxy, Unnamed::NoHeader))
    }

    /// Logs each reason once.
    #[cold]
    fn log_once(&self, proxy: IpAddr, reason: Unnamed) {
        let bit = 1 << reason as u8;
        if self.logged.load(Ordering::Relaxed) & bit == 0 && self.logged.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            observe::log::no_client(proxy, reason.as_str());
        }
    }
}

fn network(text: &str) -> Result<IpNet, InvalidProxy> {
    let network = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let network = network
        .ok_or_else(|| InvalidProxy(format!("{text:?} is neither an IP address nor a network like 10.0.0.0/8")))?;
    let IpNet::V6(v6) = network else { return Ok(network) };
    let Some(v4) = v6.addr().to_ipv4_mapped() else { return Ok(network) };
    let prefix = v6.prefix_len().checked_sub(96).and_then(|prefix| Ipv4Net::new(v4, prefix).ok());
    prefix.map(IpNet::V4).ok_or_else(|| {
        InvalidProxy(format!("{text:?} holds more than IPv4 written as IPv6: write a network like 10.0.0.0/8"))
    })
}

/// The one address of a header that the proxy overwrites.
fn single(lines: &[&[u8]]) -> Result<IpAddr, Unnamed> {
    match lines {
        [] => Err(Unnamed::NoHeader),
        [line] => address(line).ok_or(Unnamed::NoAddress),
        // One of them is the client's.
        _ => Err(Unnamed::Disagreement),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn asked(
        proxies: &TrustedProxies,
        peer: &str,
        headers: &[(&'static str, &[u8])],
    ) -> Result<String, ClientIpRejection> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        proxies.client_ip(peer.parse().unwrap(), &map).map(|client| client.to_string())
    }

    fn client(proxies: &TrustedProxies, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        asked(proxies, peer, &headers).unwrap()
    }

    fn private() -> TrustedProxies {
        TrustedProxies::new(["10.0.0.0/8"]).unwrap()
    }

    #[test]
    fn no_peer_is_believed_unless_trusted() {
        let forged = &[("x-forwarded-for", "1.1.1.1"), ("forwarded", "for=1.1.1.1"), ("x-real-ip", "1.1.1.1")];
        assert_eq!(client(&TrustedProxies::default(), "9.9.9.9", forged), "9.9.9.9");
        assert_eq!(client(&private(), "9.9.9.9", forged), "9.9.9.9");
        assert_eq!(client(&private(), "::ffff:9.9.9.9", forged), "9.9.9.9");
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
            // What is no address ends the chain of trusted ones.
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
    fn bytes_that_are_not_ascii_do_not_hide_the_hops_right_of_them() {
        for junk in [&b"\xe9"[..], b"\xff\xfe", "日本".as_bytes(), b"\x80, \xe9", b"\"", b"\t"] {
            let line = [junk, b", 9.9.9.9, 10.0.0.2"].concat();
            assert_eq!(asked(&private(), "10.0.0.1", &[("x-forwarded-for", &line)]).unwrap(), "9.9.9.9", "{junk:?}");
            let line = [junk, b", for=9.9.9.9, for=10.0.0.2"].concat();
            assert_eq!(asked(&private(), "10.0.0.1", &[("forwarded", &line)]).unwrap(), "9.9.9.9", "{junk:?}");
            let lines = [("x-forwarded-for", junk), ("x-forwarded-for", b"9.9.9.9")];
            assert_eq!(asked(&private(), "10.0.0.1", &lines).unwrap(), "9.9.9.9", "{junk:?}");
        }
    }

    #[test]
    fn forwarded_is_read_as_x_forwarded_for_is() {
        for (expected, lines) in [
            ("9.9.9.9", &["for=9.9.9.9"][..]),
            ("9.9.9.9", &["for=1.1.1.1, for=9.9.9.9;proto=https, for=\"10.0.0.2:80\""]),
            ("9.9.9.9", &["for=1.1.1.1", "for=9.9.9.9, for=10.0.0.2", "for=10.0.0.3;by=_me"]),
            ("2001:db8::1", &["for=\"[2001:db8::1]:4711\""]),
            ("10.0.0.2", &["for=9.9.9.9, for=unknown, for=10.0.0.2"]),
            ("10.0.0.2", &["for=9.9.9.9, for=_x, for=10.0.0.2"]),
            ("10.0.0.1", &["for=9.9.9.9, proto=https"]),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
            assert_eq!(client(&private(), "10.0.0.1", &headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn two_headers_count_as_far_as_they_agree() {
        for (expected, forwarded, x_forwarded_for) in [
            ("9.9.9.9", "for=9.9.9.9", "9.9.9.9"),
            ("9.9.9.9", "for=9.9.9.9, for=10.0.0.2", "9.9.9.9:80, 10.0.0.2"),
            // Further left both are the client's.
            ("9.9.9.9", "for=1.1.1.1, for=9.9.9.9", "2.2.2.2, 9.9.9.9"),
            ("2001:db8::9", "for=\"[2001:db8::9]\"", "2001:DB8:0::9"),
            // The outer proxy writes one of them.
            ("9.9.9.9", "for=9.9.9.9, for=10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "for=1.1.1.1", "9.9.9.9"),
            ("10.0.0.2", "for=1.1.1.1, for=10.0.0.2", "9.9.9.9, 10.0.0.2"),
            ("10.0.0.1", "for=unknown", "9.9.9.9"),
        ] {
            let headers = [("forwarded", forwarded), ("x-forwarded-for", x_forwarded_for)];
            assert_eq!(client(&private(), "10.0.0.1", &headers), expected, "{headers:?}");
        }
        let both = [("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "9.9.9.9")];
        assert_eq!(client(&private().x_forwarded_for_only(), "10.0.0.1", &both), "9.9.9.9");
        assert_eq!(client(&private().forwarded_only(), "10.0.0.1", &both), "1.1.1.1");
        assert_eq!(client(&private().forwarded_only(), "10.0.0.1", &both[1..]), "10.0.0.1");
    }

    #[test]
    fn a_proxy_that_names_no_client_is_refused_where_that_is_strict() {
        let refused = |proxies: &TrustedProxies, headers: &[(&'static str, &[u8])]| asked(proxies, "10.0.0.1", headers);
        let strict = private().strict(true);
        for headers in [
            &[][..],
            &[("forwarded", &b"for=unknown"[..])],
            &[("x-forwarded-for", b"\xe9")],
            &[("x-forwarded-for", b"9.9.9.9,")],
            &[("x-forwarded-for", b"10.0.0.2")],
            &[("forwarded", b"for=1.1.1.1"), ("x-forwarded-for", b"9.9.9.9")],
        ] {
            assert_eq!(refused(&strict, headers), Err(ClientIpRejection::UnnamedClient), "{headers:?}");
            assert!(refused(&private(), headers).is_ok(), "{headers:?}");
        }
        assert_eq!(refused(&strict, &[("x-forwarded-for", b"9.9.9.9")]).unwrap(), "9.9.9.9");
        assert_eq!(asked(&strict, "9.9.9.9", &[]).unwrap(), "9.9.9.9", "no proxy");
        let single = private().single_address_in("x-real-ip").unwrap().strict(true);
        assert_eq!(refused(&single, &[]), Err(ClientIpRejection::UnnamedClient));
        let twice = [("x-real-ip", &b"9.9.9.9"[..]), ("x-real-ip", b"9.9.9.9")];
        assert_eq!(refused(&single, &twice), Err(ClientIpRejection::UnnamedClient));
    }

    #[test]
    fn a_header_with_one_address_is_taken_from_a_proxy_that_overwrites_it() {
        let proxies = private().single_address_in("X-Real-IP").unwrap();
        assert_eq!(client(&proxies, "10.0.0.1", &[("x-real-ip", "9.9.9.9")]), "9.9.9.9");
        assert_eq!(client(&proxies, "8.8.8.8", &[("x-real-ip", "9.9.9.9")]), "8.8.8.8");
        assert_eq!(client(&proxies, "10.0.0.1", &[("x-real-ip", "9.9.9.9"), ("x-real-ip", "1.1.1.1")]), "10.0.0.1");
        assert_eq!(client(&proxies, "10.0.0.1", &[("x-forwarded-for", "9.9.9.9")]), "10.0.0.1");
    }

    #[test]
    fn ipv4_written_as_ipv6_is_ipv4() {
        for network in ["::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "::ffff:a00:1/128", "::ffff:0:0/96"] {
            let proxies = TrustedProxies::new([network]).unwrap();
            for peer in ["10.0.0.1", "::ffff:10.0.0.1"] {
                assert_eq!(client(&proxies, peer, &[("x-forwarded-for", "9.9.9.9")]), "9.9.9.9", "{network}, {peer}");
            }
        }
        let wider = TrustedProxies::new(["::ffff:10.0.0.0/95"]).unwrap_err().to_string();
        assert!(wider.contains("::ffff:10.0.0.0/95") && wider.contains("10.0.0.0/8"), "{wider}");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(TrustedProxies::new(["10.0.0.0/33"]).unwrap_err().to_string().contains("10.0.0.0/33"));
        assert!(private().single_address_in("x y").is_err());
        assert!(private().single_address_in("Forwarded").unwrap_err().to_string().contains("forwarded_only"));
    }
}

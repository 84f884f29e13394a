//! [`TrustedProxies`]: the proxies whose forwarding header is trusted.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderName;
use http::header::{FORWARDED, HeaderMap};
use ipnet::{IpNet, Ipv4Net};
use smallvec::SmallVec;

use super::address::address;
use super::{ClientIp, forwarded};
use crate::observe;
use crate::observe::episodes::Episodes;
use crate::parse_error::ParseError;
use crate::response::KeyRejection;

/// Proxies whose forwarding header [`ClientIp`] trusts. None by default.
///
/// [`RateLimiterBuilder::trusted_proxies`](crate::RateLimiterBuilder::trusted_proxies) sets them
/// wherever that limiter is [in force](crate::RateLimiter::current). For a part of a server another
/// value takes its place, by `RateLimitLayer::trusted_proxies`, or as `app_data` of actix-web or
/// `data` of poem.
///
/// One header field is read: `X-Forwarded-For`, or the one that [`header`](Self::header) names.
/// From its right end, where the nearest proxy writes, addresses of trusted proxies are skipped;
/// the first other one is the client. Text further left, and every other header field, may have
/// been sent by the client.
///
/// A trusted proxy may name no client: no such field, `unknown`, an obfuscated identifier, or
/// something else than an address. Then its own address stands for all its clients, which share
/// their limits. The event `no_client` says so; with
/// [`strict`](Self::strict), such requests are answered 400.
///
/// ```
/// use ratelimit_runtime::{RateLimiter, TrustedProxies};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let behind_a_balancer = TrustedProxies::new(["10.0.0.0/8", "fd00::/8"])?;
/// let behind_a_cdn = TrustedProxies::new(["173.245.48.0/20"])?.header("cf-connecting-ip")?;
/// let limiter = RateLimiter::builder().trusted_proxies(behind_a_balancer).build()?;
/// # let _ = (limiter, behind_a_cdn);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TrustedProxies {
    networks: Arc<[IpNet]>,
    header: HeaderName,
    strict: bool,
    /// The recently logged reasons why no client is known.
    told: Arc<Episodes>,
}

/// The lines of a header field, in the order in which they were sent.
pub(crate) type Lines<'a> = SmallVec<[&'a [u8]; 4]>;

impl Default for TrustedProxies {
    fn default() -> Self {
        let header = HeaderName::from_static("x-forwarded-for");
        Self {
            networks: Arc::default(),
            header,
            strict: false,
            told: Arc::new(Episodes::new()),
        }
    }
}

/// More addresses than any chain of proxies adds: the rest was sent by the client.
const MOST_HOPS: usize = 32;

impl TrustedProxies {
    /// Proxies with these addresses (`"10.1.2.3"`) or in these networks (`"10.0.0.0/8"`). IPv4 that
    /// is written as IPv6 is IPv4: `"::ffff:10.0.0.0/104"` is `"10.0.0.0/8"`.
    ///
    /// # Errors
    ///
    /// If one of them is neither.
    pub fn new(networks: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, ParseError> {
        let networks = networks
            .into_iter()
            .map(|text| network(text.as_ref()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            networks,
            ..Self::default()
        })
    }

    /// Reads this header field in place of `X-Forwarded-For`: a field that the proxies write, and
    /// do not pass on as a client sent it. `Forwarded` is read as RFC 7239 has it, any other as a
    /// list of addresses, or the one address that a CDN writes.
    ///
    /// # Errors
    ///
    /// If a header cannot have that name.
    pub fn header(mut self, name: &str) -> Result<Self, ParseError> {
        self.header = name
            .parse()
            .map_err(|_| format!("{name:?} cannot be the name of a header"))?;
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
        self.networks
            .iter()
            .any(|network| network.contains(&address))
    }

    /// The address of the client of a request on a connection from `peer`.
    ///
    /// # Errors
    ///
    /// [`KeyRejection::UnnamedClient`], and only where this is [`strict`](Self::strict).
    pub fn client_ip(&self, peer: IpAddr, headers: &HeaderMap) -> Result<ClientIp, KeyRejection> {
        self.client_of(peer, |name| {
            headers
                .get_all(name)
                .iter()
                .map(http::HeaderValue::as_bytes)
                .collect()
        })
    }

    /// The same with the header fields of any framework.
    pub(crate) fn client_of<'a>(
        &self,
        peer: IpAddr,
        lines: impl Fn(&str) -> Lines<'a>,
    ) -> Result<ClientIp, KeyRejection> {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return Ok(ClientIp(peer));
        }
        let lines = lines(self.header.as_str()).into_iter().rev();
        let named = if self.header == FORWARDED {
            self.named(peer, lines.flat_map(forwarded::hops))
        } else {
            self.named(
                peer,
                lines.flat_map(|line| line.rsplit(|&byte| byte == b',').map(address)),
            )
        };
        match named {
            Ok(client) => Ok(ClientIp(client)),
            Err((proxy, reason)) => {
                if self.told.begins("", reason) {
                    observe::log::no_client(proxy, reason);
                }
                if self.strict {
                    Err(KeyRejection::UnnamedClient)
                } else {
                    Ok(ClientIp(proxy))
                }
            }
        }
    }

    /// The client that proxies name, the nearest hop first; or the last proxy that is known, and
    /// the reason why no hop beyond it is.
    fn named(
        &self,
        peer: IpAddr,
        hops: impl Iterator<Item = Option<IpAddr>>,
    ) -> Result<IpAddr, (IpAddr, &'static str)> {
        let mut proxy = peer;
        for hop in hops.take(MOST_HOPS) {
            match hop {
                Some(address) if self.trusts(address) => proxy = address,
                Some(client) => return Ok(client),
                None => return Err((proxy, "no_address")),
            }
        }
        Err((proxy, "no_header"))
    }
}

fn network(text: &str) -> Result<IpNet, ParseError> {
    let network = text
        .parse::<IpNet>()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let network = network.ok_or_else(|| {
        format!("{text:?} is neither an IP address nor a network like 10.0.0.0/8")
    })?;
    let IpNet::V6(v6) = network else {
        return Ok(network);
    };
    let Some(v4) = v6.addr().to_ipv4_mapped() else {
        return Ok(network);
    };
    let prefix = v6
        .prefix_len()
        .checked_sub(96)
        .and_then(|prefix| Ipv4Net::new(v4, prefix).ok());
    let wider = || {
        format!("{text:?} holds more than IPv4 written as IPv6: write a network like 10.0.0.0/8")
    };
    Ok(IpNet::V4(prefix.ok_or_else(wider)?))
}

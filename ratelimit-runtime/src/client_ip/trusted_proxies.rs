//! [`TrustedProxies`]: the proxies whose forwarding header is trusted.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// The proxies whose forwarding header [`ClientIp`] trusts. None by default.
///
/// [`RateLimiterBuilder::trusted_proxies`](crate::RateLimiterBuilder::trusted_proxies) sets them
/// wherever that limiter is [in force](crate::RateLimiter::current). For a part of a server another
/// value takes its place, by `RateLimitLayer::trusted_proxies`, or as `app_data` of actix-web or
/// `data` of poem. Of several the innermost holds; but on actix-web one of a layer goes before any
/// `app_data`, and one by itself before any in a `web::Data`, wherever they stand.
///
/// One header field is read: `X-Forwarded-For`, or the one that [`header`](Self::header) names.
/// From its right end, where the nearest proxy writes, addresses of trusted proxies are skipped;
/// the first other one is the client. Text further left, and every other header field, may have
/// been sent by the client.
///
/// A trusted proxy may name no client: no such field, trusted addresses only, as of a client inside
/// of such a network, `unknown`, or anything else but an address. Then its own address stands for
/// all its clients, which share their limits, and the log has the event `no_client`; with
/// [`strict`](Self::strict), and where the proxy has no address, such requests are answered 400.
///
/// ```
/// use ratelimit_runtime::{RateLimiter, TrustedProxies};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let behind_a_balancer = TrustedProxies::new(["10.0.0.0/8", "fd00::/8"])?;
/// let behind_a_cdn = TrustedProxies::new(["173.245.48.0/20"])?.header("cf-connecting-ip")?;
/// let on_a_platform = TrustedProxies::default().any_peer().header("fly-client-ip")?;
/// let limiter = RateLimiter::builder().trusted_proxies(behind_a_balancer).build()?;
/// # let _ = (limiter, behind_a_cdn, on_a_platform);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TrustedProxies {
    networks: Arc<[IpNet]>,
    any_peer: bool,
    header: HeaderName,
    strict: bool,
    /// The events that were logged already.
    told: Arc<ProxyEpisodes>,
}

#[derive(Debug)]
struct ProxyEpisodes {
    /// The recent reasons why a proxy named no client.
    unnamed: Episodes,
    /// `true` once a header of an untrusted proxy was logged.
    untrusted: AtomicBool,
}

/// The lines of a header field, in the order in which they were sent.
pub(crate) type Lines<'a> = SmallVec<[&'a [u8]; 4]>;

impl Default for TrustedProxies {
    fn default() -> Self {
        let header = HeaderName::from_static("x-forwarded-for");
        Self {
            networks: Arc::default(),
            any_peer: false,
            header,
            strict: false,
            told: Arc::new(ProxyEpisodes {
                unnamed: Episodes::new(),
                untrusted: AtomicBool::new(false),
            }),
        }
    }
}

/// The most addresses that are read, more than a chain of proxies adds: the client sent the rest.
const MOST_HOPS: usize = 32;

/// Header fields besides the one that is read that tell of a proxy.
const WRITTEN_BY_PROXIES: [&str; 5] = [
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
];

impl TrustedProxies {
    /// Trusts the proxies at these addresses (`"10.1.2.3"`) and in these networks (`"10.0.0.0/8"`).
    /// IPv4 written as IPv6 is IPv4: `"::ffff:10.0.0.0/104"` is `"10.0.0.0/8"`. White space around
    /// an entry is ignored.
    ///
    /// # Errors
    ///
    /// If an entry is neither, or holds every address, such as `"0.0.0.0/0"`: then each client
    /// could choose its own. To trust every peer, use [`any_peer`](Self::any_peer).
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

    /// Trusts the peer of every connection, whatever its address, also a peer without one, as on a
    /// Unix socket. Name further proxies, which are skipped in the header field, with
    /// [`new`](Self::new).
    ///
    /// Only where no client can connect past the proxy: a client that can chooses its address. An
    /// axum router served without `ConnectInfo` knows no address of a TCP client either.
    #[must_use]
    pub fn any_peer(mut self) -> Self {
        self.any_peer = true;
        self
    }

    /// Reads this header field in place of `X-Forwarded-For`. The proxies must write it, and not
    /// pass it on as a client sent it. `Forwarded` is parsed by RFC 7239, any other field as a list
    /// of addresses, or the one address that a CDN writes.
    ///
    /// # Errors
    ///
    /// If `name` cannot be the name of a header field.
    pub fn header(mut self, name: &str) -> Result<Self, ParseError> {
        self.header = name
            .parse()
            .map_err(|_| format!("{name:?} cannot be the name of a header"))?;
        Ok(self)
    }

    /// Sets whether a request is answered 400 if a trusted proxy names no client; by default it
    /// shares the limits of the proxy's address. Health checks that a proxy makes itself name no
    /// client either.
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
    /// [`KeyRejection::UnnamedClient`] if a trusted proxy names no client and this is
    /// [`strict`](Self::strict).
    pub fn client_ip(&self, peer: IpAddr, headers: &HeaderMap) -> Result<ClientIp, KeyRejection> {
        self.client_of(Ok(peer), |name| {
            headers
                .get_all(name)
                .iter()
                .map(http::HeaderValue::as_bytes)
                .collect()
        })
    }

    /// [`client_ip`](Self::client_ip) by header fields of any framework, and a peer or why it is
    /// not known.
    pub(crate) fn client_of<'a>(
        &self,
        peer: Result<IpAddr, KeyRejection>,
        lines: impl Fn(&str) -> Lines<'a>,
    ) -> Result<ClientIp, KeyRejection> {
        let peer = peer.map(|peer| peer.to_canonical());
        if !self.any_peer {
            let peer = peer?;
            if !self.trusts(peer) {
                self.tell_of_untrusted(peer, lines);
                return Ok(ClientIp(peer));
            }
        }
        let peer = peer.ok();
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
                if self.told.unnamed.begins("", reason) {
                    observe::log::no_client(proxy, reason);
                }
                let shared = proxy.filter(|_| !self.strict);
                shared.map(ClientIp).ok_or(KeyRejection::UnnamedClient)
            }
        }
    }

    /// Logs once that `peer` seems to be a proxy: it sends what proxies write, and none is named,
    /// or others are, and it is not on the internet.
    fn tell_of_untrusted<'a>(&self, peer: IpAddr, lines: impl Fn(&str) -> Lines<'a>) {
        let (told, inside) = (&self.told.untrusted, Some(peer).filter(is_inside));
        if told.load(Ordering::Relaxed) || inside.is_none() && !self.networks.is_empty() {
            return;
        }
        let sent = [self.header.as_str()]
            .into_iter()
            .chain(WRITTEN_BY_PROXIES)
            .find(|name| !lines(name).is_empty());
        if let Some(header) = sent
            && !told.swap(true, Ordering::Relaxed)
        {
            observe::log::no_proxies(header, inside);
        }
    }

    /// The client that proxies name, the nearest hop first; or the last known proxy, and the reason
    /// why no hop beyond it is known.
    fn named(
        &self,
        peer: Option<IpAddr>,
        hops: impl Iterator<Item = Option<IpAddr>>,
    ) -> Result<IpAddr, (Option<IpAddr>, &'static str)> {
        let (mut proxy, mut reason) = (peer, "no_header");
        for hop in hops.take(MOST_HOPS) {
            match hop {
                Some(address) if self.trusts(address) => {
                    (proxy, reason) = (Some(address), "all_trusted");
                }
                Some(client) => return Ok(client),
                None => return Err((proxy, "no_address")),
            }
        }
        Err((proxy, reason))
    }
}

/// `true` for an address of a private network or of this machine.
fn is_inside(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback(),
    }
}

fn network(text: &str) -> Result<IpNet, ParseError> {
    let text = text.trim();
    let network = text
        .parse::<IpNet>()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let network = network.ok_or_else(|| {
        format!("{text:?} is neither an IP address nor a network like 10.0.0.0/8")
    })?;
    let network = canonical(text, network)?;
    if network.prefix_len() == 0 {
        return Err(format!(
            "{text:?} holds every address, so each client could choose its own: name the networks \
             of your proxies. Where no client can connect past them, whatever their addresses, \
             call `any_peer`"
        )
        .into());
    }
    Ok(network)
}

/// `network`, as IPv4 if it is IPv4 written as IPv6.
fn canonical(text: &str, network: IpNet) -> Result<IpNet, ParseError> {
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

//! [`Clients`]: the key that a service makes of a client's address.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue};
use ratelimit_runtime::{Key, ParseError, TrustedProxies};

/// Reads addresses as the service does: behind its proxies, and rendered as its keys.
pub(super) struct Clients {
    proxies: TrustedProxies,
    /// The proxies in strict mode: if a proxy names no client, there is none.
    strict: TrustedProxies,
}

/// The key of a client.
pub(super) struct Client {
    pub(super) key: String,
    /// `true` if the key is a proxy's, because the proxy names no client.
    pub(super) is_proxy: bool,
}

/// Stands for the proxy that wrote the list, so that the runtime reads the list as a header field.
const WRITER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

impl Clients {
    /// Clients behind the proxies in these networks.
    pub(super) fn behind(networks: &[String]) -> Result<Self, ParseError> {
        let writer = WRITER.to_string();
        let networks = networks.iter().chain([&writer]);
        let proxies = TrustedProxies::new(networks)?;
        Ok(Self {
            strict: proxies.clone().strict(true),
            proxies,
        })
    }

    /// The client that an address, with or without a port, or a list of addresses names.
    /// Of a list, the last address that is no proxy's.
    pub(super) fn named(&self, list: &str) -> Option<Client> {
        let nearest = list.rsplit(',').next().unwrap_or_default();
        if nearest.trim_ascii().len() > LONGEST_TEXT {
            return None;
        }
        let list = HeaderValue::from_str(list).ok()?;
        let name = HeaderName::from_static("x-forwarded-for");
        let fields = HeaderMap::from_iter([(name, list)]);
        let client = self.proxies.client_ip(WRITER, &fields).ok()?;
        if client.0 == WRITER {
            return None;
        }
        let key = Key::of(&client);
        let rendered = String::from_utf8_lossy(key.as_bytes());
        Some(Client {
            key: rendered.trim_matches(['<', '>']).to_owned(),
            is_proxy: self.strict.client_ip(WRITER, &fields).is_err(),
        })
    }
}

/// The most bytes that are read as an address: a line may have many long texts.
const LONGEST_TEXT: usize = 100;

/// The most bytes of an address and its port.
pub(super) const LONGEST_ADDRESS: usize = 50;

/// The ends of a text that may be an address and its port: few bytes, however long the line is.
pub(super) fn ends(text: &str) -> impl Iterator<Item = &str> {
    let can_be = |(_, c): &(usize, char)| c.is_ascii_hexdigit() || ".:[]".contains(*c);
    let places = text.char_indices().rev().take(LONGEST_ADDRESS);
    places
        .take_while(can_be)
        .filter_map(|(at, _)| text.get(at..))
}

/// The key of a client, without its last part.
pub(super) fn masked(key: &str) -> String {
    let network = key
        .strip_suffix("/64")
        .map_or(key, |key| key.trim_end_matches(':'));
    match network.rsplit_once(['.', ':']) {
        Some((network, _)) => format!("{network}{}*", if key.contains(':') { ':' } else { '.' }),
        None => "*".to_owned(),
    }
}

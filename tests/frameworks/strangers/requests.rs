//! Clients that send what they like, and proxies that pass it on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::random::Random;

/// How the proxies in front of a server are.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) writes: Writes,
    pub(crate) strict: bool,
    /// Whether the setting is that of the limiter, or of the layer.
    pub(crate) of_limiter: bool,
}

/// Fields that proxies write; others they pass on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Writes {
    Both,
    XForwardedFor,
    Forwarded,
    RealIp,
}

pub(crate) const SITES: [Site; 5] = [
    Site { writes: Writes::Both, strict: false, of_limiter: true },
    Site { writes: Writes::Both, strict: true, of_limiter: false },
    Site { writes: Writes::XForwardedFor, strict: false, of_limiter: true },
    Site { writes: Writes::Forwarded, strict: true, of_limiter: true },
    Site { writes: Writes::RealIp, strict: false, of_limiter: false },
];

/// The networks of all proxies.
pub(crate) const TRUSTED: [&str; 3] = ["10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108"];

/// A header field.
pub(crate) type Field = (&'static str, Vec<u8>);

/// A request as a server gets it, and who sent it.
pub(crate) struct Stranger {
    pub(crate) client: IpAddr,
    /// `None` where the framework is not told of the connection.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) method: &'static str,
    /// 0 to 4: HTTP/0.9 to HTTP/3.
    pub(crate) version: usize,
    pub(crate) path: String,
    pub(crate) fields: Vec<Field>,
    pub(crate) body: Vec<u8>,
}

impl fmt::Debug for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} by {:?}: {} {} of version {}", self.client, self.peer, self.method, self.path, self.version)?;
        self.fields.iter().try_for_each(|(name, value)| writeln!(f, "    {name}: {}", value.escape_ascii()))
    }
}

const METHODS: [&str; 10] = ["GET", "GET", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"];
const TYPES: [&str; 12] = [
    "application/grpc",
    "application/grpc",
    "application/grpc+proto",
    "application/GRPC",
    "application/grpc;q=1",
    "application/grpc-web",
    "application/grpc-web-text+proto",
    "application/grpcx",
    "application/json",
    "text/html, application/grpc",
    "multipart/form-data; boundary=\"",
    "",
];
const KEYS: [&str; 8] = ["alice", "bob", "carol", " alice", "bob\t ", "", " ", "none()"];
const STATUSES: [&str; 5] = ["200", "201", "404", "500", "503"];

impl Stranger {
    pub(crate) fn new(site: &Site, random: &mut Random) -> Self {
        let client = client(random);
        let mut fields = sent(random);
        let mut from = client;
        let proxies = random.below(4);
        for _ in 0..proxies {
            pass_on(&mut fields, from, site.writes, random);
            from = proxy(random);
        }
        let peer = (random.below(100) > 0).then(|| SocketAddr::new(as_seen(from, random), port(random)));
        Self {
            client,
            peer,
            method: pick(&METHODS, random),
            version: below(5, random),
            path: path(random),
            fields,
            body: bytes(below(64, random), random),
        }
    }

    /// The lines of a field.
    pub(crate) fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |(other, _)| *other == name).map(|(_, value)| value.as_slice())
    }
}

fn below(count: usize, random: &mut Random) -> usize {
    usize::try_from(random.below(count as u64)).unwrap()
}

fn pick<T: Copy>(of: &[T], random: &mut Random) -> T {
    of[below(of.len(), random)]
}

fn port(random: &mut Random) -> u16 {
    u16::try_from(random.below(65_535)).unwrap() + 1
}

fn path(random: &mut Random) -> String {
    let segment = |random: &mut Random| pick(&["", "a", "%2e%2e", "app.js", "x%00", "grpc.Service"], random);
    let query = pick(&["", "?", "?a=b&c", "?%ff"], random);
    format!("/{}/{}{query}", segment(random), segment(random))
}

/// What can stand in a field.
fn bytes(count: usize, random: &mut Random) -> Vec<u8> {
    let byte = |random: &mut Random| match random.below(4) {
        0 => pick(b"\",;=\\: []_\t", random),
        1 => u8::try_from(128 + random.below(128)).unwrap(),
        _ => u8::try_from(32 + random.below(95)).unwrap(),
    };
    (0..count).map(|_| byte(random)).collect()
}

/// A few subscribers, some of whom have many addresses.
fn client(random: &mut Random) -> IpAddr {
    let host = u8::try_from(random.below(12)).unwrap();
    let low = u16::try_from(random.below(3)).unwrap();
    match random.below(6) {
        0 => Ipv6Addr::new(0x2001, 0xdb8, 0, host.into(), low, 0, 0, 1).into(),
        1 => Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0xc633, 0x6400 + u16::from(host)).into(),
        2 => Ipv6Addr::new(0x2002, 0xc633, 0x6400 + u16::from(host), low, 0, 0, 0, 1).into(),
        _ => Ipv4Addr::new(198, 51, 100, host).into(),
    }
}

fn proxy(random: &mut Random) -> IpAddr {
    let host = u8::try_from(random.below(5)).unwrap();
    match random.below(3) {
        0 => Ipv4Addr::new(10, 0, 0, host).into(),
        1 => Ipv4Addr::new(172, 16 + host, 0, 1).into(),
        _ => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

/// A listener for both families gives IPv4 as IPv6.
fn as_seen(address: IpAddr, random: &mut Random) -> IpAddr {
    match address {
        IpAddr::V4(v4) if random.below(3) == 0 => v4.to_ipv6_mapped().into(),
        address => address,
    }
}

/// What a client sends: fields that mean something, with values that fit, that nearly fit, or that
/// are noise.
fn sent(random: &mut Random) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    if random.below(8) > 0 {
        fields.push(("x-api-key", pick(&KEYS, random).into()));
    }
    if random.below(2) == 0 {
        fields.push(("content-type", pick(&TYPES, random).into()));
    }
    if random.below(2) == 0 {
        fields.push(("x-want", pick(&STATUSES, random).into()));
    }
    for _ in 0..random.below(5) {
        let name = pick(
            &["x-forwarded-for", "x-forwarded-for", "forwarded", "forwarded", "x-real-ip", "x-api-key", "noise"],
            random,
        );
        let value = match (name, random.below(3)) {
            ("x-api-key", _) => pick(&KEYS, random).into(),
            ("noise", _) => {
                let name = pick(
                    &["accept", "cache-control", "ratelimit", "ratelimit-policy", "retry-after", "te", "grpc-timeout"],
                    random,
                );
                fields.push((name, bytes(12, random)));
                continue;
            }
            (_, 0) => bytes(below(24, random), random),
            ("forwarded", _) => forged(b"for=", random),
            _ => forged(b"", random),
        };
        fields.push((name, value));
    }
    fields
}

/// A chain of hops that were never taken, of other clients and of proxies among others.
fn forged(before: &[u8], random: &mut Random) -> Vec<u8> {
    let mut line = Vec::new();
    for _ in 0..=random.below(40) * random.below(2) + random.below(3) {
        let hop = match random.below(6) {
            0 => pick(&["unknown", "_x", "127.0.0.1", "for", "\"", "\\\""], random).to_owned(),
            1 => proxy(random).to_string(),
            _ => hop(client(random), before.is_empty(), random),
        };
        line.extend_from_slice(before);
        line.extend_from_slice(hop.as_bytes());
        line.extend_from_slice(pick(&[b", ".as_slice(), b",", b";", b", \"", b" , "], random));
    }
    line
}

/// An address in one of the ways in which proxies write it.
fn hop(address: IpAddr, bare: bool, random: &mut Random) -> String {
    let seen = as_seen(address, random);
    let (with_port, port) = (random.below(2) == 0, port(random));
    let text = match seen {
        IpAddr::V4(v4) if with_port => format!("{v4}:{port}"),
        IpAddr::V4(v4) => return v4.to_string(),
        IpAddr::V6(v6) if with_port => format!("[{v6}]:{port}"),
        IpAddr::V6(v6) if bare && random.below(2) == 0 => v6.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    if bare { text } else { format!("\"{text}\"") }
}

/// A proxy that got a request from there passes it on.
fn pass_on(fields: &mut Vec<Field>, from: IpAddr, writes: Writes, random: &mut Random) {
    if matches!(writes, Writes::Both | Writes::XForwardedFor) {
        let hop = hop(from, true, random).into_bytes();
        append(fields, "x-forwarded-for", hop, random);
    }
    if matches!(writes, Writes::Both | Writes::Forwarded) {
        let host = bytes(below(12, random), random);
        let host: Vec<u8> = host
            .into_iter()
            .flat_map(|byte| if matches!(byte, b'"' | b'\\') { vec![b'\\', byte] } else { vec![byte] })
            .collect();
        let name = pick(&["for", "For", "FOR"], random);
        let mut pairs = vec![
            format!("{name}={}", hop(from, false, random)).into_bytes(),
            [b"host=\"", host.as_slice(), b"\""].concat(),
            b"proto=https".to_vec(),
            b"by=_proxy".to_vec(),
        ];
        pairs.truncate(1 + below(4, random));
        let shift = below(pairs.len(), random);
        pairs.rotate_left(shift);
        append(fields, "forwarded", pairs.join(&b";"[..]), random);
    }
    if writes == Writes::RealIp && !fields.iter().any(|(name, _)| *name == "x-proxied") {
        // The first one sees the client; those behind it keep what it wrote.
        fields.retain(|(name, _)| *name != "x-real-ip");
        fields.push(("x-real-ip", hop(from, true, random).into_bytes()));
        fields.push(("x-proxied", Vec::new()));
    }
}

/// Adds a line, or lengthens the last one, or makes one of all.
fn append(fields: &mut Vec<Field>, name: &'static str, hop: Vec<u8>, random: &mut Random) {
    let separator = pick(&[b", ".as_slice(), b","], random);
    let lines: Vec<_> = fields.iter().enumerate().filter(|(_, field)| field.0 == name).map(|(at, _)| at).collect();
    match (random.below(3), lines.last()) {
        (0, _) | (_, None) => fields.push((name, hop)),
        (1, Some(&last)) => fields[last].1 = [fields[last].1.as_slice(), separator, &hop].concat(),
        (_, Some(_)) => {
            let mut all: Vec<_> = lines.iter().map(|&at| fields[at].1.clone()).collect();
            all.push(hop);
            fields.retain(|field| field.0 != name);
            fields.push((name, all.join(separator)));
        }
    }
}

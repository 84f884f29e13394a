//! IP addresses in keys: one key for each subscriber.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::kind::KeyKind;
use super::writer::{KeyPart, KeyWriter};

/// The exact address, to count hosts instead of subscribers; also where a translator gives IPv4
/// clients addresses of a prefix of its own, such as `2001:db8:46::/96`: they have one /64. Only an
/// IPv4-mapped IPv6 address is changed: it becomes the IPv4 address in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExactIp(pub IpAddr);

#[diagnostic::do_not_recommend]
impl KeyPart for ExactIp {
    /// Written in full, not as a subscriber.
    const KIND: KeyKind = KeyKind::Text;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.display(self.0.to_canonical());
    }
}

/// An address stands for a subscriber: IPv4 in full, also when embedded in an IPv6 address; IPv6 by
/// its /64, the network of one customer, except in `64:ff9b:1::/48` (RFC 8215), where each address
/// is that of an IPv4 client.
#[diagnostic::do_not_recommend]
impl KeyPart for IpAddr {
    const KIND: KeyKind = KeyKind::Address;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        match self {
            Self::V4(address) => address.write_key(key),
            Self::V6(address) => address.write_key(key),
        }
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for Ipv4Addr {
    const KIND: KeyKind = KeyKind::Address;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        key.display(self);
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for Ipv6Addr {
    const KIND: KeyKind = KeyKind::Address;

    fn write_key(&self, key: &mut KeyWriter<'_>) {
        if let Some(address) = embedded_ipv4(*self) {
            address.write_key(key);
        } else if let [0x64, 0xff9b, 1, ..] = self.segments() {
            // The prefix of a local translator, which puts the IPv4 address at any place in it.
            key.display(self);
        } else {
            let network = Self::from_bits(self.to_bits() & (u128::MAX << 64));
            key.display(format_args!("{network}/64"));
        }
    }
}

/// The IPv4 address embedded in an IPv6 address: mapped (`::ffff:0:0/96`), NAT64 (`64:ff9b::/96`),
/// 6to4 (`2002::/16`) or Teredo (`2001::/32`), where a /64 is a server that many clients share.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join =
        |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => join(high, low),
        [0x2001, 0, .., high, low] => join(!high, !low),
        _ => None,
    }
}

//! `Forwarded` (RFC 7239), read from the right: the nearest proxy writes there, and the client on
//! the left. So nothing that a client writes, well-formed or not, changes how the elements of
//! proxies are read.

use std::borrow::Cow;
use std::net::IpAddr;

use super::address::address;

/// The addresses that the elements of a line name by `for`, the last one first; `None` where one
/// names no address: `unknown`, an obfuscated identifier (`_x`), no `for`, two of them, or what is
/// no element.
pub(super) fn hops(line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    Elements { rest: Some(line) }.map(|element| node(&for_of(element)?))
}

/// The elements of a line from the right. A comma in a quoted string separates nothing.
struct Elements<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        let mut quoted = false;
        let mut separates = |&(at, byte): &(usize, &u8)| match byte {
            b'"' if !(quoted && is_escaped(rest, at)) => {
                quoted = !quoted;
                false
            }
            b',' => !quoted,
            _ => false,
        };
        let comma = rest.iter().enumerate().rev().find(|byte| separates(byte)).map(|(at, _)| at);
        let Some((left, right)) = comma.and_then(|at| rest.split_at_checked(at)) else { return Some(rest) };
        self.rest = Some(left);
        right.get(1..)
    }
}

/// Whether an odd number of backslashes stands before this byte.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line.iter().take(at).rev().take_while(|&&byte| byte == b'\\').count();
    before % 2 == 1
}

/// The value of `for` of an element: `name=value` pairs, with semicolons between them.
fn for_of(element: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut found = None;
    let mut rest = element.trim_ascii();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b";") {
            rest = after.trim_ascii_start();
            continue;
        }
        let equals = rest.iter().position(|&byte| byte == b'=')?;
        let (name, value) = rest.split_at_checked(equals)?;
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return None;
        }
        let (value, after) = value_of(value.get(1..)?)?;
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
        rest = after.trim_ascii_start();
        if !matches!(rest.first(), None | Some(b';')) {
            return None;
        }
    }
    found
}

/// A value, and what comes after it.
fn value_of(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        // Wider than a token: many proxies write addresses with colons and brackets without
        // quotation marks.
        let end = text.iter().position(|&byte| byte == b';' || byte.is_ascii_whitespace()).unwrap_or(text.len());
        let (value, after) = text.split_at_checked(end)?;
        return (!value.is_empty() && !value.contains(&b'"')).then_some((Cow::Borrowed(value), after));
    };
    let mut value = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        match byte {
            b'"' => return Some((Cow::Owned(value), after)),
            b'\\' => {
                let (&escaped, after) = after.split_first()?;
                value.push(escaped);
                rest = after;
            }
            byte => {
                value.push(byte);
                rest = after;
            }
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The address of a node, whose port may be obfuscated: `192.0.2.1:_x`.
fn node(value: &[u8]) -> Option<IpAddr> {
    let obfuscated = |pair: &[u8]| pair == b":_";
    address(value).or_else(|| address(value.get(..value.windows(2).position(obfuscated)?)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use proptest::prelude::*;

    use super::*;

    fn read(line: &str) -> Vec<String> {
        let word = |hop: Option<IpAddr>| hop.map_or_else(|| "-".to_owned(), |address| address.to_string());
        hops(line.as_bytes()).map(word).collect()
    }

    #[test]
    fn elements_are_read_from_the_right_as_rfc_7239_has_them() {
        for (line, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &["192.0.2.60"][..]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
            ("for=192.0.2.43, for=198.51.100.17", &["198.51.100.17", "192.0.2.43"]),
            ("for=192.0.2.43,for=\"198.51.100.17:80\" ,\tfor=unknown", &["-", "198.51.100.17", "192.0.2.43"]),
            ("for=\"_gazonk\"", &["-"]),
            ("for=_hidden, for=\"_SEVKISEK:_p\"", &["-", "-"]),
            ("for=\"192.0.2.1:_p\", for=\"[2001:db8::1]:_p\"", &["2001:db8::1", "192.0.2.1"]),
            ("by=192.0.2.1;proto=https", &["-"]),
            ("for=192.0.2.1; proto=https ;host=x", &["192.0.2.1"]),
            (";for=192.0.2.1;;", &["192.0.2.1"]),
            // Not as the grammar has it, but unambiguous.
            ("for=[2001:db8::1]:4711, for=192.0.2.1:80, for=2001:db8::2", &["2001:db8::2", "192.0.2.1", "2001:db8::1"]),
            ("for=\"::ffff:192.0.2.1\"", &["192.0.2.1"]),
            ("for=\"192\\.0.2.1\"", &["192.0.2.1"]),
            // What could be read in two ways names no address.
            ("for=192.0.2.1;for=192.0.2.2", &["-"]),
            ("for=192.0.2.1 for=192.0.2.2", &["-"]),
            ("for =192.0.2.1", &["-"]),
            ("for=\"192.0.2.1\"x", &["-"]),
            ("for=\"192.0.2.1", &["-"]),
            ("192.0.2.1", &["-"]),
            ("", &["-"]),
            ("for=192.0.2.1,", &["-", "192.0.2.1"]),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn a_quoted_value_hides_no_hop_and_makes_none() {
        for (line, expected) in [
            ("for=192.0.2.1;host=\"a, for=6.6.6.6\"", &["192.0.2.1"][..]),
            ("for=192.0.2.1;host=\"a\\\", for=6.6.6.6\"", &["192.0.2.1"]),
            ("for=192.0.2.1;host=\"a\\\\\", for=192.0.2.2", &["192.0.2.2", "192.0.2.1"]),
            ("for=6.6.6.6;host=\", for=192.0.2.1", &["192.0.2.1", "-"]),
            ("host=\"for=6.6.6.6\";for=192.0.2.1", &["192.0.2.1"]),
            ("host=\";for=6.6.6.6;\";proto=http", &["-"]),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    fn element() -> impl Strategy<Value = (String, Option<IpAddr>)> {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let node = prop_oneof![
            any::<std::net::Ipv4Addr>().prop_map(|ip| (ip.to_string(), Some(IpAddr::V4(ip)))),
            any::<[u8; 16]>().prop_map(|octets| {
                let ip = std::net::Ipv6Addr::from(octets);
                (format!("\"[{ip}]:80\""), Some(IpAddr::V6(ip).to_canonical()))
            }),
            Just(("unknown".to_owned(), None)),
        ];
        (node, "[ -~]{0,12}", any::<bool>()).prop_map(move |((node, address), host, first)| {
            let host = quoted(&host);
            let text = if first { format!("for={node};host={host}") } else { format!("host={host};for={node}") };
            (text, address)
        })
    }

    proptest! {
        #[test]
        fn what_a_client_writes_changes_no_hop_of_a_proxy(
            client in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b','), any::<u8>()], 0..40),
            elements in proptest::collection::vec(element(), 1..4),
        ) {
            let mut line = client;
            for (text, _) in &elements {
                line.extend_from_slice(b", ");
                line.extend_from_slice(text.as_bytes());
            }
            let read: Vec<_> = hops(&line).take(elements.len()).collect();
            let expected: Vec<_> = elements.iter().rev().map(|(_, address)| *address).collect();
            prop_assert_eq!(read, expected);
        }
    }
}

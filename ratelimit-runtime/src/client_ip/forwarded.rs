//! The elements of `Forwarded` (RFC 7239), from the right: there the nearest proxy writes, and on
//! the left the client. So nothing that a client writes, well-formed or not, changes how the
//! elements of proxies are read.

use std::borrow::Cow;
use std::net::IpAddr;

use super::address::address;

/// The addresses that the elements of a line name by `for`, the last one first. `None` stands for
/// an element that names no address: `unknown`, an obfuscated identifier (`_x`), no `for`, two of
/// them, or malformed text.
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
        let comma = rest
            .iter()
            .enumerate()
            .rev()
            .find(|byte| separates(byte))
            .map(|(at, _)| at);
        let split = comma.and_then(|at| rest.split_at_checked(at));
        let Some((left, [_comma, element @ ..])) = split else {
            return Some(rest);
        };
        self.rest = Some(left);
        Some(element)
    }
}

/// `true` if an odd number of backslashes precedes the byte at `at`.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line
        .iter()
        .take(at)
        .rev()
        .take_while(|&&byte| byte == b'\\')
        .count();
    before % 2 == 1
}

/// The value of `for` in an element, which is `name=value` pairs separated by semicolons; `None` if
/// it has none or two, or is malformed.
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

/// The first value in `text`, unquoted, and the text after it.
fn value_of(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        // Wider than a token: many proxies write addresses with colons and brackets without
        // quotation marks.
        let end = text
            .iter()
            .position(|&byte| byte == b';' || byte.is_ascii_whitespace())
            .unwrap_or(text.len());
        let (value, after) = text.split_at_checked(end)?;
        return (!value.is_empty() && !value.contains(&b'"'))
            .then_some((Cow::Borrowed(value), after));
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

/// The address of a node, whose port may be obfuscated, as in `192.0.2.1:_x`.
fn node(value: &[u8]) -> Option<IpAddr> {
    let obfuscated = |pair: &[u8]| pair == b":_";
    address(value).or_else(|| address(value.get(..value.windows(2).position(obfuscated)?)?))
}

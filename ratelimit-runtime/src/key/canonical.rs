//! Recognizes rendered keys, as [`KeyWriter`](super::KeyWriter) writes them for some values: an
//! override for a key that no call renders is an error.

use super::buf::{KeyBuf, MAX_PART};
use super::writer::{Place, escape_into};

/// The length of a digest, in hexadecimal digits.
const DIGEST: usize = 32;

/// `true` if some template with at least one value renders to this text.
pub(crate) fn is_canonical(rendered: &str) -> bool {
    let mut parts = rendered.split('<');
    let mut has_value = false;
    parts
        .next()
        .is_some_and(|text| is_escaped(text, Place::Template))
        && parts.all(|part| {
            has_value = true;
            part.split_once('>')
                .is_some_and(|(value, text)| is_value(value) && is_escaped(text, Place::Template))
        })
        && has_value
}

/// `true` if the text between the brackets of a value is items, separated by commas.
fn is_value(value: &str) -> bool {
    if value.strip_prefix("##").is_some_and(is_digest) {
        return true;
    }
    let mut groups = 0_usize;
    let mut rest = value;
    if value.len() > MAX_PART {
        return false;
    }
    // An item is a text, a digest, or a group behind its name; a group that ends is the end of one.
    let mut is_after_group = false;
    loop {
        let end = rest.find(['(', ')', ',']).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        let mut behind = after.chars();
        let next = behind.next();
        let is_item = match text {
            _ if is_after_group => text.is_empty() && next != Some('('),
            "%-" => next == Some(')') && before(value, rest) == Some('('),
            _ => {
                let digest = text.strip_prefix('#').is_some_and(is_digest) && next != Some('(');
                digest || is_escaped(text, Place::Value)
            }
        };
        if !is_item {
            return false;
        }
        match next {
            None => return groups == 0,
            Some('(') => groups += 1,
            Some(')') if groups == 0 => return false,
            Some(')') => groups -= 1,
            Some(_) => {}
        }
        is_after_group = next == Some(')');
        rest = behind.as_str();
    }
}

/// The last character of `all` before its ending `rest`.
fn before(all: &str, rest: &str) -> Option<char> {
    all.strip_suffix(rest)?.chars().next_back()
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGEST
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// `true` if the text is escaped as rendering does: each character that has to be, and no other.
fn is_escaped(text: &str, place: Place) -> bool {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.split_first_chunk::<2>().map(|(digits, after)| {
            rest = after;
            std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        });
        let Some(Some(escaped)) = digits else {
            return false;
        };
        bytes.push(escaped);
    }
    let mut escaped = KeyBuf::new();
    escape_into(&mut escaped, &bytes, place);
    *escaped == *text.as_bytes()
}

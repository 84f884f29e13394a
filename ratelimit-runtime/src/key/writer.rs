//! [`KeyWriter`]: the one way into a key. It frames what it is given, so no [`KeyPart`] can run into another.

use std::fmt;

use hmac::digest::Digest as _;
use sha2::Sha256;

use super::{KeyBuf, KeyPart, MAX_PART};

/// Writes one value into a key.
///
/// A value is a sequence of *items*: a text, a number, a nested value, a group of them. The writer separates and
/// escapes them, so that two different sequences never give the same bytes.
///
/// | call | rendered |
/// | --- | --- |
/// | `str("a,b")` | `a%2Cb` |
/// | `str("a")`, then `str("b")` | `a,b` |
/// | `group("point", \|w\| { w.part(&1); w.part(&2); })` | `point(1,2)` |
/// | nothing | `()` |
#[derive(Debug)]
pub struct KeyWriter<'a> {
    out: &'a mut KeyBuf,
    items: usize,
}

impl KeyWriter<'_> {
    /// Writes a text as one item.
    pub fn str(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes bytes as one item. Bytes that are text give the same key as that text.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.separate();
        if bytes.len() > MAX_PART {
            // Not copied first: the value may be as long as a request.
            push_digest(self.out, b"#", bytes);
        } else {
            escape_into(self.out, bytes, Place::Value);
        }
    }

    /// Writes what the value displays as one item.
    pub fn display(&mut self, value: impl fmt::Display) {
        self.bytes(value.to_string().as_bytes());
    }

    /// Writes another value as one item; one that writes several gets parentheses.
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        self.separate();
        let start = self.out.len();
        if write_items(self.out, value) != 1 {
            self.out.insert(start, b'(');
            self.out.push(b')');
        }
    }

    /// Writes a group of items as one, under a name: a variant of an enum, or `""` for a tuple.
    pub fn group(&mut self, name: &str, items: impl FnOnce(&mut KeyWriter<'_>)) {
        self.separate();
        escape_into(self.out, name.as_bytes(), Place::Value);
        self.out.push(b'(');
        let start = self.out.len();
        let mut group = KeyWriter { out: &mut *self.out, items: 0 };
        items(&mut group);
        if group.items == 1 && group.out.len() == start {
            // One empty item is not the same as none.
            group.out.extend_from_slice(b"%-");
        }
        self.out.push(b')');
    }

    /// Digits and other characters that need no escape, as one item.
    pub(super) fn plain(&mut self, text: &str) {
        self.separate();
        self.out.extend_from_slice(text.as_bytes());
    }

    fn separate(&mut self) {
        if self.items > 0 {
            self.out.push(b',');
        }
        self.items += 1;
    }
}

/// Renders a whole placeholder, bounded.
pub(super) fn write_part<T: KeyPart + ?Sized>(out: &mut KeyBuf, value: &T) {
    let start = out.len();
    if write_items(out, value) == 0 {
        out.extend_from_slice(b"()");
    }
    if out.len() - start > MAX_PART {
        let rendered = KeyBuf::from_slice(out.get(start..).unwrap_or_default());
        out.truncate(start);
        push_digest(out, b"##", &rendered);
    }
}

fn write_items<T: KeyPart + ?Sized>(out: &mut KeyBuf, value: &T) -> usize {
    let mut writer = KeyWriter { out, items: 0 };
    value.write_key(&mut writer);
    writer.items
}

/// `#` marks the digest of one item, `##` that of a rendering; neither occurs unescaped in a value.
fn push_digest(out: &mut KeyBuf, tag: &[u8], bytes: &[u8]) {
    out.extend_from_slice(tag);
    push_hex(out, &Sha256::digest(bytes));
}

/// The first 128 bits, in lower-case hexadecimal.
pub(crate) fn push_hex(out: &mut KeyBuf, digest: &[u8]) {
    for byte in digest.iter().take(16) {
        out.extend_from_slice(&[hex(byte >> 4).to_ascii_lowercase(), hex(byte & 15).to_ascii_lowercase()]);
    }
}

fn hex(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'A' + nibble - 10,
    }
}

/// Where bytes stand, which decides what would be mistaken for the frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Between the values.
    Template,
    /// In a value.
    Value,
}

impl Place {
    fn escapes(self, byte: u8) -> bool {
        match byte {
            b'<' | b'>' | b'{' | b'}' | b'%' | 0..=0x1f | 0x7f => true,
            b'(' | b')' | b',' | b'#' => self == Self::Value,
            _ => false,
        }
    }
}

/// Copies bytes; what belongs to the frame, and what is not UTF-8, becomes `%` and two hexadecimal digits.
pub(super) fn escape_into(out: &mut KeyBuf, bytes: &[u8], place: Place) {
    if bytes.is_ascii() && !bytes.iter().any(|&byte| place.escapes(byte)) {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            if place.escapes(byte) {
                push_escaped(out, byte);
            } else {
                out.push(byte);
            }
        }
        for &byte in chunk.invalid() {
            push_escaped(out, byte);
        }
    }
}

fn push_escaped(out: &mut KeyBuf, byte: u8) {
    out.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 15)]);
}

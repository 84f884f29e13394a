//! [`KeyPart`], a value that can be part of a key, and [`KeyWriter`], which is the only way to
//! write one. The writer separates and escapes its input, so no two parts can run together.

use std::fmt;

use hmac::digest::Digest as _;
use sha2::Sha256;

use super::buf::{KeyBuf, MAX_PART};
use super::kind::KeyKind;

/// A value that can be part of a key.
///
/// For structs, newtypes and enums: `#[derive(KeyPart)]`. By hand:
///
/// ```
/// use ratelimit_runtime::{Key, KeyPart, KeyWriter};
///
/// struct Tenant { region: String, id: u64 }
///
/// impl KeyPart for Tenant {
///     fn write_key(&self, key: &mut KeyWriter<'_>) {
///         key.str(&self.region);
///         key.part(&self.id);
///     }
/// }
///
/// let tenant = Tenant { region: "eu".into(), id: 7 };
/// assert_eq!(Key::of(&tenant).as_bytes(), b"<eu,7>");
/// ```
///
/// # What counts as the same value
///
/// All values of one type are told apart, with one exception: an IP address stands for its
/// subscriber (IPv4 embedded in IPv6 is IPv4, an IPv6 address is its /64;
/// [`ExactIp`](crate::ExactIp) keeps the address). Between types, values that read the same are the
/// same: `7_u8`, `7_u64` and `"7"`; `"a"`, `String::from("a")` and `b"a"`; a reference or a smart
/// pointer and what it points to. Floating-point numbers are not keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a rate limit key",
    label = "not a `KeyPart`",
    note = "for your own type: `#[derive(KeyPart)]`, or, if it only implements `Display`, \
        `key = value.to_string()`",
    note = "or name a field or a method that gives a string, an integer, a `bool`, an `IpAddr`, a \
        `Uuid` (feature `uuid`) or a tuple of such: `<user.id>`, `<user.name()>`",
    note = "for an extractor name what it holds: `Path(id): Path<u64>` is `<id>`; in actix-web, \
        `id: Path<u64>` is `key = *id`",
    note = "for a socket address write `<addr.ip()>`: its port changes with every connection",
    note = "for a `Result` write an expression, `key = tenant(&request)?`: its error is what the \
        call returns"
)]
pub trait KeyPart {
    /// The kind of value that operators' tools accept for this type. The default,
    /// [`KeyKind::Other`], accepts none. A type that is written as a text, a whole number or an
    /// address may name that kind; `#[derive(KeyPart)]` does so for a newtype.
    const KIND: KeyKind = KeyKind::Other;

    /// Writes the value. Equal values must make equal calls of the writer, others different ones.
    fn write_key(&self, key: &mut KeyWriter<'_>);

    /// Writes a slice of values: bytes as one item, other values as a group.
    #[doc(hidden)]
    fn write_slice(slice: &[Self], key: &mut KeyWriter<'_>)
    where
        Self: Sized,
    {
        key.group("", |group| {
            for item in slice {
                group.part(item);
            }
        });
    }
}

/// Writes one value into a key.
///
/// A value is a sequence of *items*: a text, a number, a nested value, or a group of items. The
/// writer separates and escapes them, so that two different sequences never give the same bytes.
/// A nested value of several items, or of none, is written as a group of them without a name.
/// A value that takes more than 160 bytes becomes a digest of 128 bits.
///
/// | call | rendered |
/// | --- | --- |
/// | `str("a,b")` | `a%2Cb` |
/// | `str("a")`, then `str("b")` | `a,b` |
/// | `group("point", \|w\| { w.part(&1); w.part(&2); })` | `point(1,2)` |
/// | nothing | `()` |
pub struct KeyWriter<'a> {
    out: &'a mut KeyBuf,
    items: usize,
}

impl fmt::Debug for KeyWriter<'_> {
    /// Without the bytes, which may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyWriter(..)")
    }
}

impl KeyWriter<'_> {
    /// Writes a text as one item.
    #[inline]
    pub fn str(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes bytes as one item. Bytes that are UTF-8 give the same key as that text.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.separate();
        if bytes.len() > MAX_PART {
            // Not copied first: the value may be as long as a request.
            push_digest(self.out, b"#", bytes);
        } else {
            escape_into(self.out, bytes, Place::Value);
        }
    }

    /// Writes the `Display` text of a value as one item.
    pub fn display(&mut self, value: impl fmt::Display) {
        self.bytes(value.to_string().as_bytes());
    }

    /// Writes another value as one item, in parentheses if it has several items or none.
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        self.separate();
        let start = self.out.len();
        if write_items(self.out, value) != 1 {
            self.out.insert(start, b'(');
            self.out.push(b')');
        }
    }

    /// Writes a group of items as one item, under a name: an enum's variant, or `""` for a tuple.
    pub fn group(&mut self, name: &str, items: impl FnOnce(&mut KeyWriter<'_>)) {
        self.separate();
        escape_into(self.out, name.as_bytes(), Place::Value);
        self.out.push(b'(');
        let start = self.out.len();
        let mut group = KeyWriter {
            out: &mut *self.out,
            items: 0,
        };
        items(&mut group);
        if group.items == 1 && group.out.len() == start {
            // One empty item is not the same as none.
            group.out.extend_from_slice(b"%-");
        }
        self.out.push(b')');
    }

    /// Writes text that needs no escape, such as digits, as one item.
    pub(super) fn plain(&mut self, text: &str) {
        self.separate();
        self.out.extend_from_slice(text.as_bytes());
    }

    #[inline]
    fn separate(&mut self) {
        if self.items > 0 {
            self.out.push(b',');
        }
        self.items += 1;
    }
}

/// Renders the value of a placeholder, of bounded length.
#[inline]
pub(super) fn write_part<T: KeyPart + ?Sized>(out: &mut KeyBuf, value: &T) {
    let start = out.len();
    if write_items(out, value) == 0 {
        out.extend_from_slice(b"()");
    }
    if out.len() - start > MAX_PART {
        digest_from(out, start);
    }
}

/// Replaces the bytes from `start` on by a digest of them.
#[cold]
fn digest_from(out: &mut KeyBuf, start: usize) {
    debug_assert!(
        start <= out.len(),
        "a value is rendered behind what was there"
    );
    let rendered = KeyBuf::from_slice(out.get(start..).unwrap_or_default());
    out.truncate(start);
    push_digest(out, b"##", &rendered);
}

#[inline]
fn write_items<T: KeyPart + ?Sized>(out: &mut KeyBuf, value: &T) -> usize {
    let mut writer = KeyWriter { out, items: 0 };
    value.write_key(&mut writer);
    writer.items
}

/// Adds a digest of `bytes` after `tag`: `#` for one item, `##` for a rendering. Neither occurs
/// unescaped in a value.
fn push_digest(out: &mut KeyBuf, tag: &[u8], bytes: &[u8]) {
    out.extend_from_slice(tag);
    push_hex(out, &Sha256::digest(bytes));
}

/// Adds the first 128 bits in lower-case hexadecimal.
pub(crate) fn push_hex(out: &mut KeyBuf, digest: &[u8]) {
    for byte in digest.iter().take(16) {
        out.extend_from_slice(&[
            hex(byte >> 4).to_ascii_lowercase(),
            hex(byte & 15).to_ascii_lowercase(),
        ]);
    }
}

fn hex(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'A' + nibble - 10,
    }
}

/// The place of bytes in a key, which decides which of them have to be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Between values.
    Template,
    /// Inside a value.
    Value,
}

impl Place {
    const fn escapes(self, byte: u8) -> bool {
        match byte {
            b'<' | b'>' | b'{' | b'}' | b'%' | 0..=0x1f | 0x7f => true,
            b'(' | b')' | b',' | b'#' => matches!(self, Self::Value),
            _ => false,
        }
    }

    /// The bit of the place in [`SPECIAL`].
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The places where each byte may have to be escaped, as bits.
static SPECIAL: [u8; 256] = {
    let mut special = [Place::Template.bit() | Place::Value.bit(); 256];
    let mut byte = 0;
    while byte < 128 {
        let in_template = if Place::Template.escapes(byte) {
            Place::Template.bit()
        } else {
            0
        };
        let in_value = if Place::Value.escapes(byte) {
            Place::Value.bit()
        } else {
            0
        };
        #[allow(clippy::indexing_slicing, reason = "a constant, and below 128")]
        {
            special[byte as usize] = in_template | in_value;
        }
        byte += 1;
    }
    special
};

/// The places where one of these bytes may have to be escaped, as bits.
fn special(bytes: &[u8]) -> u8 {
    #[allow(clippy::indexing_slicing, reason = "there is a place for each byte")]
    let of = |bytes: &[u8]| {
        let each = bytes.iter();
        each.fold(0, |all, &byte| all | SPECIAL[usize::from(byte)])
    };
    // Eight at once, without a loop.
    let (chunks, rest) = bytes.as_chunks::<8>();
    chunks.iter().fold(of(rest), |all, chunk| all | of(chunk))
}

/// Copies bytes. Bytes that could be mistaken for a delimiter, and bytes that are not UTF-8, become
/// `%` and two hexadecimal digits.
#[inline]
pub(super) fn escape_into(out: &mut KeyBuf, bytes: &[u8], place: Place) {
    if special(bytes) & place.bit() == 0 {
        out.extend_from_slice(bytes);
    } else {
        escape_each(out, bytes, place);
    }
}

#[cold]
fn escape_each(out: &mut KeyBuf, bytes: &[u8], place: Place) {
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

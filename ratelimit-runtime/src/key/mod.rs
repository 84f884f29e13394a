//! Keys: the values that calls are counted by, such as a user or an address, rendered to bytes.
//!
//! A key is rendered from values, each in its own brackets: `"<tenant>/<email>"` becomes
//! `<acme>/<alice@example.com>`. Rendering is
//!
//! * **injective**: different values, or different templates, never give the same key, whatever
//!   bytes they contain. A byte that could be mistaken for the frame is escaped, as in `%3C`;
//! * **bounded**: a value whose rendering is longer than 160 bytes becomes `#` and a digest;
//! * **readable** for ordinary values, and free of braces, which Redis Cluster takes for a hash
//!   tag.
//!
//! The bytes are part of the crate's contract: two releases that run side by side agree on them.

mod buf;
mod canonical;
mod hasher;
mod ip;
mod kind;
mod part;
mod writer;

use std::borrow::Borrow;
use std::fmt;

pub(crate) use self::buf::KeyBuf;
pub(crate) use self::canonical::is_canonical;
pub(crate) use self::hasher::KeyHasher;
pub use self::ip::ExactIp;
pub use self::kind::KeyKind;
pub(crate) use self::kind::RenderedKinds;
pub use self::writer::{KeyPart, KeyWriter};
use crate::parse_error::ParseError;

/// A rendered key, made by [`key!`](crate::key!) or [`Key::of`].
///
/// With it, `acquire`, `peek` and `reset` reach the counts of an attribute with the same template.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(KeyBuf);

impl Key {
    /// The key that all callers share, as those of an attribute without `key` do.
    #[must_use]
    pub fn global() -> Self {
        Self(KeyBuf::new())
    }

    /// The key of one value, as `key = "<value>"` renders it.
    pub fn of<T: KeyPart + ?Sized>(value: &T) -> Self {
        let mut builder = KeyBuilder::new();
        builder.part(value);
        builder.finish()
    }

    /// The key with this rendering, which [`as_bytes`](Self::as_bytes) returns and which ends a
    /// stored key.
    ///
    /// # Errors
    ///
    /// If `rendered` has brackets that do not match, a brace, or a control character. Any other
    /// text is accepted, even if no call renders it.
    ///
    /// ```
    /// # #[cfg(feature = "macros")] {
    /// use ratelimit_runtime::{Key, key};
    ///
    /// let (tenant, email) = ("acme", "alice@example.com");
    /// assert_eq!(Key::from_rendered("<acme>/<alice@example.com>"), Ok(key!("<tenant>/<email>")));
    /// assert!(Key::from_rendered("<acme").is_err());
    /// # }
    /// ```
    pub fn from_rendered(rendered: &str) -> Result<Self, ParseError> {
        const INVALID: &str = "not a rendered key: each value stands in its own `<` and `>`, and \
            what they hold is escaped";
        let mut open = false;
        for byte in rendered.bytes() {
            match byte {
                b'<' if !open => open = true,
                b'>' if open => open = false,
                b'<' | b'>' | b'{' | b'}' | 0..=0x1f | 0x7f => {
                    return Err(INVALID.to_owned().into());
                }
                _ => {}
            }
        }
        if open {
            Err(INVALID.to_owned().into())
        } else {
            Ok(Self(KeyBuf::from_slice(rendered.as_bytes())))
        }
    }

    /// The rendered bytes, without the prefix and the rule with which the stored key begins.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The rendering as text; all renderings are UTF-8.
    pub(crate) fn as_str(&self) -> &str {
        let text = std::str::from_utf8(&self.0);
        debug_assert!(text.is_ok(), "what is not UTF-8 is escaped");
        text.unwrap_or_default()
    }
}

/// Keys are looked up by their bytes, which hash as the key does.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    /// Without the bytes, which may be personal data: `Debug` output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Renders a key step by step; `key!` expands to it.
#[doc(hidden)]
#[derive(Default)]
pub struct KeyBuilder(KeyBuf);

impl KeyBuilder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text of the template.
    pub fn text(&mut self, literal: &str) {
        push_text(&mut self.0, literal);
    }

    /// Adds the value of a placeholder.
    pub fn part<T: KeyPart + ?Sized>(&mut self, value: &T) {
        push_part(&mut self.0, value);
    }

    #[must_use]
    pub fn finish(self) -> Key {
        Key(self.0)
    }
}

impl fmt::Debug for KeyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBuilder(..)")
    }
}

/// Adds text of a template: only characters that delimit values are escaped.
pub(crate) fn push_text(out: &mut KeyBuf, literal: &str) {
    writer::escape_into(out, literal.as_bytes(), writer::Place::Template);
}

/// Adds one value in its brackets.
#[inline]
pub(crate) fn push_part<T: KeyPart + ?Sized>(out: &mut KeyBuf, value: &T) {
    out.push(b'<');
    writer::write_part(out, value);
    out.push(b'>');
}

//! [`KeyKind`]: the kind of a placeholder's value.

use std::fmt;

/// The kind of a placeholder's value, by its type. Operators' tools fill a placeholder only with a
/// value of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KeyKind {
    /// Any other value: a tuple, a list, a type with fields.
    #[default]
    Other,
    /// A text, such as an e-mail address or a UUID.
    Text,
    /// A whole number.
    Number,
    /// An IP address, which stands for its subscriber: an IPv6 address for its /64.
    Address,
}

/// The kind as the store keeps it.
impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Other => "other",
            Self::Text => "text",
            Self::Number => "number",
            Self::Address => "address",
        })
    }
}

/// The kinds of the values that a call has rendered: two bits each, after a leading 1, so that a
/// call adds one with a shift. After 15 values the first are lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RenderedKinds(u32);

impl RenderedKinds {
    /// No value.
    pub(crate) const NONE: Self = Self(1);
    /// The kinds of a key made by hand, which are not known.
    pub(crate) const UNKNOWN: Self = Self(0);

    #[inline]
    pub(crate) const fn push(&mut self, kind: KeyKind) {
        self.0 = self.0 << 2 | kind as u32;
    }

    /// The kinds in order; `None` if they are not known.
    pub(crate) fn list(self) -> Option<Vec<KeyKind>> {
        let count = self.0.checked_ilog2()? / 2;
        let kind = |index| match self.0 >> (2 * index) & 3 {
            1 => KeyKind::Text,
            2 => KeyKind::Number,
            3 => KeyKind::Address,
            _ => KeyKind::Other,
        };
        Some((0..count).rev().map(kind).collect())
    }
}

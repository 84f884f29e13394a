//! [`KeyBuf`]: the bytes of a key.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// The longest rendering of one value, in bytes; a longer one becomes a digest of 128 bits.
pub(super) const MAX_PART: usize = 160;

/// How much is kept without an allocation.
const INLINE: usize = 160;

/// The bytes of a key; on the stack for ordinary ones. It is made to be appended to.
#[derive(Clone)]
pub(crate) struct KeyBuf {
    len: usize,
    inline: [u8; INLINE],
    /// All of it, once it is longer.
    spilled: Vec<u8>,
}

impl KeyBuf {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { len: 0, inline: [0; INLINE], spilled: Vec::new() }
    }

    #[inline]
    pub(crate) fn from_slice(bytes: &[u8]) -> Self {
        let mut buf = Self::new();
        match buf.inline.get_mut(..bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => buf.spilled = bytes.to_vec(),
        }
        buf.len = bytes.len();
        buf
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.inline.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len = end;
            }
            None => self.spill(bytes),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        match self.inline.get_mut(self.len) {
            Some(room) => {
                *room = byte;
                self.len += 1;
            }
            None => self.spill(&[byte]),
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(self.inline.get(..self.len).unwrap_or_default());
        }
        self.spilled.extend_from_slice(bytes);
        self.len = self.spilled.len();
    }

    pub(crate) fn insert(&mut self, at: usize, byte: u8) {
        self.push(byte);
        let bytes =
            if self.spilled.is_empty() { self.inline.get_mut(at..self.len) } else { self.spilled.get_mut(at..) };
        if let Some(moved) = bytes {
            moved.rotate_right(1);
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        let kept = Self::from_slice(self.get(..len).unwrap_or(self));
        *self = kept;
    }
}

impl Deref for KeyBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.spilled.is_empty() { self.inline.get(..self.len).unwrap_or_default() } else { &self.spilled }
    }
}

impl Default for KeyBuf {
    fn default() -> Self {
        Self::new()
    }
}

// As their bytes.
impl PartialEq for KeyBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for KeyBuf {}

impl PartialOrd for KeyBuf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyBuf {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for KeyBuf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Across the length at which it spills.
    #[test]
    fn it_holds_what_a_vector_would() {
        for len in INLINE - 3..INLINE + 3 {
            let (mut buf, mut vec) = (KeyBuf::new(), Vec::new());
            for byte in (0..=u8::MAX).take(len) {
                buf.push(byte);
                vec.push(byte);
            }
            assert_eq!(*buf, *vec);
            buf.insert(5, b'(');
            vec.insert(5, b'(');
            assert_eq!(*buf, *vec);
            buf.extend_from_slice(b"abc");
            vec.extend_from_slice(b"abc");
            assert!(*buf == *vec && buf == KeyBuf::from_slice(&vec));
            buf.truncate(7);
            vec.truncate(7);
            buf.extend_from_slice(&[1; 200]);
            vec.extend_from_slice(&[1; 200]);
            assert!(*buf == *vec && buf != KeyBuf::new());
        }
    }
}

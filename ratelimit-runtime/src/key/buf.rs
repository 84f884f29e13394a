//! [`KeyBuf`]: the bytes of a key.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// The longest rendering of one value, in bytes; of a longer one, a digest of 128 bits is written.
pub(super) const MAX_PART: usize = 160;

/// The bytes in front of a key: enough for the beginning of the stored keys of most rules.
const FRONT: usize = 88;
/// The bytes kept without an allocation, front included; no more, as keys are moved often.
const INLINE: usize = FRONT + 88;

/// The bytes of a key, without an allocation for ordinary ones, built by appending. Once the
/// limiter is known, the beginning of the rule's stored keys is written [in front](Self::behind) of
/// it.
#[derive(Clone)]
pub(crate) struct KeyBuf {
    len: usize,
    /// The key begins after [`FRONT`] bytes.
    inline: [u8; INLINE],
    /// The whole key, if it does not fit inline.
    spilled: Vec<u8>,
}

impl KeyBuf {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self {
            len: 0,
            inline: [0; INLINE],
            spilled: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn from_slice(bytes: &[u8]) -> Self {
        let mut buf = Self::new();
        buf.extend_from_slice(bytes);
        buf
    }

    /// The key with `front` before it. Nothing may be appended afterwards.
    #[inline]
    pub(crate) fn behind(&mut self, front: &[u8]) -> &[u8] {
        let start = FRONT.checked_sub(front.len());
        match start.filter(|_| self.spilled.is_empty()) {
            Some(start) => {
                if let Some(room) = self.inline.get_mut(start..FRONT) {
                    room.copy_from_slice(front);
                }
                self.inline.get(start..FRONT + self.len).unwrap_or_default()
            }
            None => self.spill_behind(front),
        }
    }

    #[cold]
    fn spill_behind(&mut self, front: &[u8]) -> &[u8] {
        self.spilled = [front, self].concat();
        &self.spilled
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
        let start = FRONT + self.len;
        match self.inline.get_mut(start..start + bytes.len()) {
            Some(free) => {
                free.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.spill(bytes),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        match self.inline.get_mut(FRONT + self.len) {
            Some(free) => {
                *free = byte;
                self.len += 1;
            }
            None => self.spill(&[byte]),
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled = self.to_vec();
        }
        self.spilled.extend_from_slice(bytes);
        self.len = self.spilled.len();
    }

    pub(crate) fn insert(&mut self, at: usize, byte: u8) {
        self.push(byte);
        let bytes = if self.spilled.is_empty() {
            self.inline.get_mut(FRONT + at..FRONT + self.len)
        } else {
            self.spilled.get_mut(at..)
        };
        debug_assert!(
            bytes.is_some(),
            "a byte is inserted in the key or at its end"
        );
        if let Some(moved) = bytes {
            moved.rotate_right(1);
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len(), "a key is not cut behind its end");
        *self = Self::from_slice(self.get(..len).unwrap_or(self));
    }
}

impl Deref for KeyBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.spilled.is_empty() {
            let bytes = self.inline.get(FRONT..FRONT + self.len);
            debug_assert!(bytes.is_some(), "a key that is longer has spilled");
            bytes.unwrap_or_default()
        } else {
            &self.spilled
        }
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

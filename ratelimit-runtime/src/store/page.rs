//! [`Page`]: some of the keys that a store holds for a rule, and where the next ones begin.

use std::fmt;

use super::StoreError;

/// A part of the keys that a store holds for a rule: what [`Store::keys`](super::Store::keys)
/// gives.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Page {
    /// The keys, as [`Request::key`](super::Request::key) has them. There may be none, and more on
    /// the next page.
    pub keys: Vec<Vec<u8>>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page, and where the next one begins.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>, next: Option<Cursor>) -> Self {
        Self { keys, next }
    }
}

impl fmt::Debug for Page {
    /// Without the keys, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("keys", &self.keys.len()).field("next", &self.next).finish()
    }
}

/// Where a [`Page`] begins, as bytes: they can be stored, and a later call continues there, also
/// one of another process.
///
/// The store that gave a cursor gives its bytes a meaning, and checks them when they are given
/// back. A `RedisStore` continues wherever its servers are the same; what a restart, a fail-over or
/// a slot that has moved makes doubtful, it lists again, so that no key is left out. A
/// `MemoryStore` continues while it lives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(Vec<u8>);

impl Cursor {
    /// A cursor of these bytes, which a store has chosen.
    #[must_use]
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A position in the keys that begin with `prefix`, with a checksum of both.
    pub(in crate::store) fn seal(prefix: &[u8], mut position: Vec<u8>) -> Self {
        let checksum = checksum(prefix, &position);
        position.extend_from_slice(&checksum);
        Self(position)
    }

    /// The position that was sealed with this prefix.
    ///
    /// # Errors
    ///
    /// `Misconfigured` if there is none.
    pub(in crate::store) fn open(&self, prefix: &[u8]) -> Result<&[u8], StoreError> {
        let (position, sum) = self.0.split_last_chunk().ok_or_else(Self::foreign)?;
        if *sum == checksum(prefix, position) { Ok(position) } else { Err(Self::foreign()) }
    }

    /// What is answered to a cursor that the store did not give for the same keys.
    pub(in crate::store) fn foreign() -> StoreError {
        StoreError::misconfigured(
            "this cursor is not one that this store gave for the keys of this rule: begin with the first page",
        )
    }
}

/// FNV-1a, which is the same in each process. It guards against mistakes, not against forgers, who
/// could at most leave keys out of a list.
fn checksum(prefix: &[u8], position: &[u8]) -> [u8; 8] {
    let length = u64::try_from(prefix.len()).unwrap_or(u64::MAX).to_le_bytes();
    let bytes = length.iter().chain(prefix).chain(position);
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_opened_by_its_prefix_alone() {
        let cursor = Cursor::seal(b"rl1:a:", vec![1, 2, 3]);
        assert_eq!(cursor.open(b"rl1:a:").ok(), Some(&[1, 2, 3][..]));
        let stored = Cursor::from_bytes(cursor.as_bytes());
        assert_eq!(stored.open(b"rl1:a:").ok(), Some(&[1, 2, 3][..]));
        assert!(cursor.open(b"rl1:b:").is_err());
        assert!(Cursor::from_bytes(*b"").open(b"rl1:a:").is_err());
        for place in 0..cursor.as_bytes().len() {
            let mut changed = cursor.as_bytes().to_vec();
            changed.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1);
            assert!(Cursor::from_bytes(changed).open(b"rl1:a:").is_err(), "{place}");
            let cut = cursor.as_bytes().get(..place).unwrap_or_default();
            assert!(Cursor::from_bytes(cut).open(b"rl1:a:").is_err(), "{place}");
        }
    }
}

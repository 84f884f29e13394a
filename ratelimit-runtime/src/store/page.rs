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
    /// Where the next page begins; `None` if this is the last one. A store gives these bytes a
    /// meaning of its own, and checks them when they are given back: they can be stored, and a later
    /// call continues there, also one of another process.
    pub next: Option<Vec<u8>>,
}

impl Page {
    /// A page, and where the next one begins.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>, next: Option<Vec<u8>>) -> Self {
        Self { keys, next }
    }
}

impl fmt::Debug for Page {
    /// Without the keys, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("keys", &self.keys.len()).field("is_last", &self.next.is_none()).finish()
    }
}

/// A position in the keys that begin with `prefix`, as bytes that can be stored, with a checksum of
/// both.
pub(in crate::store) fn seal(prefix: &[u8], mut position: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(prefix, &position);
    position.extend_from_slice(&checksum);
    position
}

/// The position that was sealed with this prefix.
///
/// # Errors
///
/// `Misconfigured` if there is none.
pub(in crate::store) fn open<'a>(cursor: &'a [u8], prefix: &[u8]) -> Result<&'a [u8], StoreError> {
    let (position, sum) = cursor.split_last_chunk().ok_or_else(foreign)?;
    if *sum == checksum(prefix, position) { Ok(position) } else { Err(foreign()) }
}

/// What is answered to a cursor that the store did not give for the same keys.
pub(in crate::store) fn foreign() -> StoreError {
    StoreError::misconfigured(
        "this cursor is not one that this store gave for the keys of this rule: begin with the first page",
    )
}

/// FNV-1a, which is the same in each process. It guards against mistakes, not against forgers, who
/// could at most leave keys out of a list.
fn checksum(prefix: &[u8], position: &[u8]) -> [u8; 8] {
    let length = u64::try_from(prefix.len()).unwrap_or(u64::MAX).to_le_bytes();
    let bytes = length.iter().chain(prefix).chain(position);
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step).to_le_bytes()
}

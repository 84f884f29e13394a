//! [`KeyBuf`]: the bytes of a key.

use smallvec::SmallVec;

/// The longest rendering of one value, in bytes; a longer one becomes a digest of 128 bits.
pub(super) const MAX_PART: usize = 160;

/// The bytes of a key; on the stack for ordinary ones.
pub(crate) type KeyBuf = SmallVec<[u8; 160]>;

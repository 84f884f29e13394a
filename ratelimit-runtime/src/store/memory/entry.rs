//! [`KeyEntry`]: a key with its bucket, in two cache lines: the first is read to find the key, the
//! second to decide.

use std::sync::Arc;

use smallvec::SmallVec;

use super::bucket::Bucket;
use super::rules::KeyHead;
use crate::store::Request;

/// A key with its bucket.
#[repr(C, align(128))]
pub(super) struct KeyEntry {
    /// The rule, which other keys share.
    pub(super) rule: Arc<KeyHead>,
    /// Half of the key's hash; the other half selects the shard.
    pub(super) hash: u32,
    /// The key without the head of its rule; a longer one is allocated.
    rendered: SmallVec<[u8; 39]>,
    pub(super) bucket: Bucket,
}

const _: () = assert!(size_of::<KeyEntry>() == 128 && size_of::<Bucket>() == 64);

impl KeyEntry {
    pub(super) fn new(
        request: &Request<'_>,
        rule: Arc<KeyHead>,
        hash: u32,
        bucket: Bucket,
    ) -> Self {
        Self {
            rule,
            hash,
            rendered: SmallVec::from_slice(request.split_key().1),
            bucket,
        }
    }

    /// `true` if `key` is the whole key: requests may split it at different places.
    #[inline]
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        key.strip_prefix(&*self.rule.head)
            .is_some_and(|rendered| *rendered == *self.rendered)
    }

    pub(super) fn key(&self) -> Vec<u8> {
        [&*self.rule.head, &*self.rendered].concat()
    }
}

//! [`KeyEntry`]: a key with its bucket, in two cache lines: the first is read to find the key, the
//! second to decide.

use std::sync::Arc;

use super::bucket::Bucket;
use super::rules::KeyHead;
use crate::store::Request;

/// The longest rendered key, in bytes, that is kept without an allocation.
const INLINE: usize = 46;

/// A key with its bucket.
#[repr(C, align(128))]
pub(super) struct KeyEntry {
    /// The rule, which other keys share.
    pub(super) rule: Arc<KeyHead>,
    /// Half of the key's hash; the other half selects the shard.
    pub(super) hash: u32,
    rendered: Rendered,
    pub(super) bucket: Bucket,
}

/// The key without the head of its rule.
enum Rendered {
    Inline { len: u8, bytes: [u8; INLINE] },
    Long(Box<[u8]>),
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
            rendered: Rendered::new(request.split_key().1),
            bucket,
        }
    }

    /// `true` if this is all of its key: requests may take different parts of it for the rule.
    #[inline]
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        key.strip_prefix(&*self.rule.head)
            .is_some_and(|rendered| *rendered == *self.rendered())
    }

    pub(super) fn key(&self) -> Vec<u8> {
        [&*self.rule.head, self.rendered()].concat()
    }

    #[inline]
    fn rendered(&self) -> &[u8] {
        match &self.rendered {
            Rendered::Inline { len, bytes } => {
                let rendered = bytes.get(..usize::from(*len));
                debug_assert!(rendered.is_some(), "a longer key is not kept in line");
                rendered.unwrap_or_default()
            }
            Rendered::Long(bytes) => bytes,
        }
    }
}

impl Rendered {
    fn new(rendered: &[u8]) -> Self {
        let mut bytes = [0; INLINE];
        match (
            bytes.get_mut(..rendered.len()),
            u8::try_from(rendered.len()),
        ) {
            (Some(inline), Ok(len)) => {
                inline.copy_from_slice(rendered);
                Self::Inline { len, bytes }
            }
            _ => Self::Long(rendered.into()),
        }
    }
}

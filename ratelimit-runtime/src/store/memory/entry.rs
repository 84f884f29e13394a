//! [`Entry`]: a key with its bucket, in two cache lines: one finds the key, the other decides.

use std::sync::Arc;

use super::bucket::Bucket;
use super::rules::Rule;
use crate::store::Request;

/// The longest rendered key that takes no memory of its own, in bytes.
const INLINE: usize = 46;

/// A key with its bucket.
#[repr(C, align(128))]
pub(super) struct Entry {
    /// The rule that it shares with other keys.
    pub(super) rule: Arc<Rule>,
    /// Half of the key's hash: the other half finds the shard.
    pub(super) hash: u32,
    rendered: Rendered,
    pub(super) bucket: Bucket,
}

/// The key behind the head of its rule.
enum Rendered {
    Inline { len: u8, bytes: [u8; INLINE] },
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<Entry>() == 128 && size_of::<Bucket>() == 64);

impl Entry {
    pub(super) fn new(request: &Request<'_>, rule: Arc<Rule>, hash: u32, bucket: Bucket) -> Self {
        Self {
            rule,
            hash,
            rendered: Rendered::new(request.split_key().1),
            bucket,
        }
    }

    /// Whether this is its key, all of it: a request may take another part for its rule.
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

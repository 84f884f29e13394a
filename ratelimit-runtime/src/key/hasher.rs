//! [`KeyHasher`]: hides keys by a hash with a secret, before they leave the process.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::buf::KeyBuf;
use super::writer::push_hex;

/// Replaces rendered keys by `#` and 128 bits of their HMAC-SHA-256.
#[derive(Clone)]
pub(crate) struct KeyHasher(Hmac<Sha256>);

impl KeyHasher {
    /// A hasher with this secret, of any length; `None` if it is empty, which would hide nothing.
    pub(crate) fn new(secret: &[u8]) -> Option<Self> {
        if secret.is_empty() {
            return None;
        }
        let keyed = Hmac::new_from_slice(secret);
        debug_assert!(keyed.is_ok(), "HMAC takes a secret of any length");
        keyed.ok().map(Self)
    }

    /// Replaces a rendered key by a digest. The digest covers the `head` that is stored before the
    /// key, so that one person's keys cannot be linked across rules. A key that is already hidden,
    /// as in lists of keys, is not changed.
    pub(crate) fn hide(&self, head: &[u8], rendered: &mut KeyBuf) {
        if rendered.is_empty() || is_hidden(rendered) {
            return;
        }
        let digest = self.0.clone().chain_update(head);
        let digest = digest.chain_update(&**rendered).finalize().into_bytes();
        *rendered = KeyBuf::from_slice(b"#");
        push_hex(rendered, &digest);
    }
}

/// `true` if this is a key that [`KeyHasher::hide`] has written. A template renders such text only
/// if its author wrote it.
fn is_hidden(rendered: &[u8]) -> bool {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    rendered.len() == 33
        && rendered
            .split_first()
            .is_some_and(|(mark, hex)| *mark == b'#' && hex.iter().all(is_hex))
}

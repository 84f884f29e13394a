//! The keys of a rule, by `SCAN`: a part of them at a time, however many there are.

use super::backend::Backend;
use super::topology::Search;
use crate::error::StoreError;
use crate::store::{Cursor, Page, Request};

impl Backend {
    pub(super) async fn list(&self, request: &Request<'_>, from: Option<Cursor>) -> Result<Page, StoreError> {
        let route = self.route(request)?;
        let prefix = request.key();
        let from = from.as_ref().map(|cursor| cursor.open(prefix)).transpose()?;
        let pattern = beginning_with(prefix);
        let search = Search { pattern: &pattern, timeout_at: request.timeout_at() };
        let (stored, next) = self.connections.keys(search, from).await?;
        let of_rule = |stored: &Vec<u8>| stored.starts_with(prefix);
        let keys = stored.into_iter().filter(of_rule).filter_map(|stored| route.key_of(stored)).collect();
        Ok(Page::new(keys, next.map(|position| Cursor::seal(prefix, position))))
    }
}

/// The glob pattern of all that begins with these bytes.
fn beginning_with(bytes: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(bytes.len() + 8);
    for byte in bytes {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\') {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_every_character_for_itself() {
        assert_eq!(beginning_with(b"rl2:sw-60s:a*[b]?\\:"), b"rl2:sw-60s:a\\*\\[b\\]\\?\\\\:*");
    }
}

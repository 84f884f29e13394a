//! Waits for a store, by its server and by what came of them.

use std::sync::{PoisonError, RwLock};

use ::metrics::{Key, Label};

use super::STORE;
use crate::error::StoreErrorKind;

/// How many servers of stores have a label of their own.
const MAX_SERVERS: usize = 64;
/// The label of all others.
const OTHER: &str = "(other)";

/// An answer, and each kind of error.
const RESULTS: [&str; 6] = ["ok", "unavailable", "timed_out", "full", "misconfigured", "unsupported"];

/// A key for each result.
type Keys = [Key; RESULTS.len()];

/// Keys are made when a server is first waited for. They are never forgotten, so their number is
/// bounded.
static SERVERS: RwLock<Vec<(&str, &Keys)>> = RwLock::new(Vec::new());

/// The key of an answer of this server, or of an error of this kind. Recorders copy it without
/// taking memory.
pub(super) fn key(server: &str, error: Option<StoreErrorKind>) -> &'static Key {
    let [ok, unavailable, timed_out, full, misconfigured, unsupported] = keys(server);
    match error {
        None => ok,
        Some(StoreErrorKind::Unavailable) => unavailable,
        Some(StoreErrorKind::TimedOut) => timed_out,
        Some(StoreErrorKind::Full) => full,
        Some(StoreErrorKind::Misconfigured) => misconfigured,
        Some(StoreErrorKind::Unsupported) => unsupported,
    }
}

fn keys(server: &str) -> &'static Keys {
    let servers = SERVERS.read().unwrap_or_else(PoisonError::into_inner);
    let known = find(&servers, server).or_else(|| if is_full(&servers) { find(&servers, OTHER) } else { None });
    drop(servers);
    known.unwrap_or_else(|| add(server))
}

fn find(servers: &[(&str, &'static Keys)], server: &str) -> Option<&'static Keys> {
    servers.iter().find(|(known, _)| *known == server).map(|(_, keys)| *keys)
}

/// Whether a further server is one of the others.
fn is_full(servers: &[(&str, &'static Keys)]) -> bool {
    servers.len() >= MAX_SERVERS
}

#[cold]
fn add(server: &str) -> &'static Keys {
    let mut servers = SERVERS.write().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have added it meanwhile.
    if let Some(keys) = find(&servers, server) {
        return keys;
    }
    let server = if is_full(&servers) { OTHER } else { server };
    find(&servers, server).unwrap_or_else(|| {
        let server: &'static str = Box::leak(server.into());
        let keys: &'static Keys = Box::leak(Box::new(RESULTS.map(|result| key_of(server, result))));
        servers.push((server, keys));
        keys
    })
}

fn key_of(server: &'static str, result: &'static str) -> Key {
    let labels = [("result", result), ("server", server)];
    let labels = labels.map(|(label, value)| Label::from_static_parts(label, value));
    Key::from_static_labels(STORE, Box::leak(Box::new(labels)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(key: &Key) -> Vec<(&str, &str)> {
        key.labels().map(|label| (label.key(), label.value())).collect()
    }

    #[test]
    fn servers_are_told_apart_up_to_a_bound() {
        let late = key("first:1", Some(StoreErrorKind::TimedOut));
        assert_eq!(labels(late), [("result", "timed_out"), ("server", "first:1")]);
        assert_eq!(labels(key("second:1", None)), [("result", "ok"), ("server", "second:1")]);
        for port in 0..2 * MAX_SERVERS {
            key(&format!("many:{port}"), None);
        }
        let other = key("further:1", Some(StoreErrorKind::Full));
        assert_eq!(labels(other), [("result", "full"), ("server", OTHER)]);
        assert!(std::ptr::eq(other, key("further:2", Some(StoreErrorKind::Full))), "the others share a key");
        assert!(std::ptr::eq(late, key("first:1", Some(StoreErrorKind::TimedOut))), "who has a key keeps it");
        assert!(SERVERS.read().is_ok_and(|servers| servers.len() == MAX_SERVERS + 1));
    }
}

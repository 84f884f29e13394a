//! What several test programs share.

#![allow(dead_code, reason = "every test program uses another part")]

pub(crate) mod redis;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// `name` with a suffix that no other call, process or earlier run has: tests that share a server never share a key.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{name}-{}-{nanos:x}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

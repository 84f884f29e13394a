//! [`PolicySet`]: the policies of a limiter, and which of them checks have used.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::rule::{Policies, Policy};

/// The policies of a limiter, by name.
#[derive(Debug, Default)]
pub(crate) struct PolicySet {
    by_name: HashMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    policy: Policy,
    /// Shared with the sets that replace this one: a check may still mark an old set while a new
    /// one is put in its place.
    is_used: Arc<AtomicBool>,
}

/// How many names a message lists, and how many characters of a name that a call has made.
const LISTED: usize = 16;

impl PolicySet {
    /// The policy of this name, for a check. From then on a set without it is refused.
    pub(super) fn used(&self, name: &str) -> Option<&Policy> {
        let entry = self.by_name.get(name)?;
        // Read first, so that checks on many cores do not write to one cache line.
        if !entry.is_used.load(Ordering::Relaxed) {
            entry.is_used.store(true, Ordering::Relaxed);
        }
        Some(&entry.policy)
    }

    /// The message to a check whose policy is not among them, with the names of those that are.
    #[cold]
    pub(super) fn unknown(&self, name: &str) -> String {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        let more = match names.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        names.truncate(LISTED);
        // A call may make the name of what a client has sent.
        let shown: String = name.chars().take(4 * LISTED).flat_map(char::escape_debug).collect();
        if names.is_empty() {
            return format!(
                "the limiter has no policy `{shown}`: give it one with `RateLimiter::builder().policy(\"{shown}\", …)`"
            );
        }
        format!(
            "the limiter has no policy `{shown}`, only `{}`{more}: give it that one, or use one of these",
            names.join("`, `")
        )
    }

    /// The set of these policies, which takes the place of this one; the names of those in use that
    /// it lacks, in order.
    pub(crate) fn replaced_by(&self, policies: Policies) -> Result<Self, Vec<&str>> {
        let used = self.by_name.iter().filter(|(_, entry)| entry.is_used.load(Ordering::Relaxed));
        let mut lacking: Vec<&str> =
            used.map(|(name, _)| name.as_str()).filter(|name| !policies.contains_key(*name)).collect();
        if !lacking.is_empty() {
            lacking.sort_unstable();
            return Err(lacking);
        }
        let entry = |(name, policy): (String, Policy)| {
            let is_used = self.by_name.get(&name).map(|entry| Arc::clone(&entry.is_used)).unwrap_or_default();
            (name, Entry { policy, is_used })
        };
        Ok(Self { by_name: policies.into_iter().map(entry).collect() })
    }
}

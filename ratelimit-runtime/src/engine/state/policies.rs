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
    uses: Arc<Uses>,
}

/// How checks have used a policy.
#[derive(Debug, Default)]
struct Uses {
    any: AtomicBool,
    /// Those of a rule that waits, unless the policy says otherwise.
    waiting: AtomicBool,
}

/// Sets a flag. Reads first, so that checks on many cores do not write to one cache line.
fn mark(flag: &AtomicBool) {
    if !flag.load(Ordering::Relaxed) {
        flag.store(true, Ordering::Relaxed);
    }
}

/// How many names a message lists, and how many characters of a name that a call has made.
const LISTED: usize = 16;

impl PolicySet {
    /// The policy of this name, for a check of a rule that waits or does not. From then on a set
    /// that lacks it is refused, and one that blocks in it if the rule waits.
    pub(in crate::engine) fn used(&self, name: &str, waits: bool) -> Option<&Policy> {
        let entry = self.by_name.get(name)?;
        mark(&entry.uses.any);
        if waits {
            mark(&entry.uses.waiting);
        }
        Some(&entry.policy)
    }

    /// The names that are not among the policies.
    pub(crate) fn missing<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        names
            .iter()
            .copied()
            .filter(|name| !self.by_name.contains_key(*name))
            .collect()
    }

    /// The message to a check whose policy is unknown, with the names of the policies.
    #[cold]
    pub(in crate::engine) fn unknown(&self, name: &str) -> String {
        // A call may make the name from a client's text.
        let shown: String = name
            .chars()
            .take(4 * LISTED)
            .flat_map(char::escape_debug)
            .collect();
        if self.by_name.is_empty() {
            return format!(
                "the limiter has no policy `{shown}`: give it one with `RateLimiter::builder().policy(\"{shown}\", …)`"
            );
        }
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        let more = if names.len() > LISTED {
            " and others"
        } else {
            ""
        };
        names.truncate(LISTED);
        let names = names.join("`, `");
        format!(
            "the limiter has no policy `{shown}`, only `{names}`{more}: give it that one, or use one of these"
        )
    }

    /// The set of these policies, which takes the place of this one.
    ///
    /// # Errors
    ///
    /// The reason why it cannot: a policy in use is missing, or blocks where a rule waits.
    pub(crate) fn replaced_by(&self, policies: Policies) -> Result<Self, String> {
        let lacks = |(name, entry): &(&String, &Entry)| {
            entry.uses.any.load(Ordering::Relaxed) && !policies.contains_key(*name)
        };
        let mut lacking: Vec<&str> = self
            .by_name
            .iter()
            .filter(lacks)
            .map(|(name, _)| name.as_str())
            .collect();
        if !lacking.is_empty() {
            lacking.sort_unstable();
            let (policies, them) = if lacking.len() == 1 {
                ("policy", "it")
            } else {
                ("policies", "them")
            };
            return Err(format!(
                "the new set lacks the {policies} `{}`, which rules use: give {them} limits in it, or take the rules away \
                 first",
                lacking.join("`, `")
            ));
        }
        let is_waited_for = |name: &str| {
            self.by_name
                .get(name)
                .is_some_and(|entry| entry.uses.waiting.load(Ordering::Relaxed))
        };
        if let Some((name, _)) = policies
            .iter()
            .find(|(name, policy)| policy.stops_waiting() && is_waited_for(name))
        {
            return Err(waits_in_vain(name));
        }
        let entry = |(name, policy): (String, Policy)| {
            let uses = self
                .by_name
                .get(&name)
                .map(|entry| Arc::clone(&entry.uses))
                .unwrap_or_default();
            (name, Entry { policy, uses })
        };
        Ok(Self {
            by_name: policies.into_iter().map(entry).collect(),
        })
    }
}

/// The message where a policy blocks and a rule that uses it waits.
pub(in crate::engine) fn waits_in_vain(policy: &str) -> String {
    format!(
        "the policy `{policy}` blocks, and a rule that uses it waits: a call either waits or is blocked: leave `block` out, \
         or write `wait = \"0s\"` in the policy"
    )
}

//! [`PolicyBook`]: the policies of a limiter, replaced in one step while calls go on, and how rules
//! use them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use super::registry::BoundRules;
use super::uses::PolicyUse;
use crate::rule::{Policies, Policy};
use crate::store::Capabilities;

/// The policies of a limiter: the set in force, and the names that were ever used.
#[derive(Default)]
pub(crate) struct PolicyBook {
    current: ArcSwap<PolicySet>,
    /// The version of the set in force.
    version: AtomicU64,
    /// The names that checks have used or the service requires. A set is put in force under this
    /// lock, so that no use falls between the look at the uses and the change.
    used: Mutex<Used>,
}

/// The uses of each policy: one of each kind, at most [`MOST_USES`].
type Used = HashMap<String, Vec<PolicyUse>>;

/// The most kinds of uses of a policy that are remembered. Rules in code have few.
const MOST_USES: usize = 64;

/// Policies that are put in force together, by name.
#[derive(Default)]
pub(crate) struct PolicySet {
    by_name: HashMap<String, Arc<Policy>>,
    /// Counted from 1; 0 for the first, empty set.
    pub(in crate::engine) version: u64,
    /// The rules bound under these policies.
    pub(in crate::engine) rules: BoundRules,
}

impl PolicyBook {
    pub(in crate::engine) fn current(&self) -> Arc<PolicySet> {
        self.current.load_full()
    }

    #[inline]
    pub(in crate::engine) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The set in force, and its policy `name`, for a rule with this use. From then on a set is
    /// refused that lacks the policy, or in which it does not go together with the rule.
    pub(in crate::engine) fn used(
        &self,
        name: &str,
        by: &PolicyUse,
    ) -> (Arc<PolicySet>, Option<Arc<Policy>>) {
        let mut used = self.lock();
        let set = self.current();
        let policy = set.by_name.get(name).cloned();
        if policy.is_some() {
            let known = used.entry(name.to_owned()).or_default();
            if known.len() < MOST_USES && !known.iter().any(|known| known.is_like(by)) {
                known.push(*by);
            }
        }
        (set, policy)
    }

    /// The number of policies.
    pub(crate) fn count(&self) -> usize {
        self.current().by_name.len()
    }

    /// The names that are not among the policies. If none is missing, a set that lacks one of them
    /// is refused from then on.
    pub(crate) fn require<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let mut used = self.lock();
        let set = self.current();
        let is_missing = |name: &&str| !set.by_name.contains_key(*name);
        let missing: Vec<&str> = names.iter().copied().filter(is_missing).collect();
        if missing.is_empty() {
            for name in names {
                used.entry((*name).to_owned()).or_default();
            }
        }
        missing
    }

    /// Puts these policies in force, in place of all others.
    ///
    /// # Errors
    ///
    /// If a policy in use or required is missing, or does not go together with a rule that uses it
    /// on this `store`.
    pub(crate) fn replace(&self, policies: Policies, store: &Capabilities) -> Result<(), String> {
        let used = self.lock();
        let lacking = used.keys().filter(|name| !policies.contains_key(*name));
        let mut lacking: Vec<&str> = lacking.map(String::as_str).collect();
        if !lacking.is_empty() {
            lacking.sort_unstable();
            let (noun, them) = if lacking.len() == 1 {
                ("policy", "it")
            } else {
                ("policies", "them")
            };
            let lacking = lacking.join("`, `");
            return Err(format!(
                "the new set lacks the {noun} `{lacking}`, which rules use or `require_policies` \
                 names: give {them} limits in it, or take the rules away first"
            ));
        }
        let mistake = policies.iter().find_map(|(name, policy)| {
            let mut by_rules = used.get(name)?.iter();
            by_rules.find_map(|by| by.mistake(name, policy, store))
        });
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        let by_name = policies.into_iter();
        let by_name = by_name.map(|(name, policy)| (name, Arc::new(policy)));
        let version = self.version() + 1;
        self.current.store(Arc::new(PolicySet {
            by_name: by_name.collect(),
            version,
            rules: BoundRules::default(),
        }));
        self.version.store(version, Ordering::Release);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most names that a message lists. Four times as many characters of a call's policy are shown.
const LISTED: usize = 16;

impl PolicySet {
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
}

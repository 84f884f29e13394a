//! [`PolicyBook`]: the policies of a limiter, and how rules use them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::registry::BoundRules;
use crate::rule::{Policies, Policy, Rule};

/// The policies of a limiter: the set in force, and the names that were ever used.
#[derive(Default)]
pub(crate) struct PolicyBook {
    current: ArcSwap<PolicySet>,
    /// The version of the set in force.
    version: AtomicU64,
    /// The names that checks have used or the service requires. A set is put in force under this
    /// lock, so that no use falls between the look at the uses and the change.
    used: Mutex<HashMap<String, PolicyUse>>,
}

/// How rules use a policy, unless the policy says otherwise.
#[derive(Default, Clone, Copy)]
pub(in crate::engine) struct PolicyUse {
    waits: bool,
    /// `true` if a rule keeps no permits of calls in flight.
    keeps_none: bool,
    /// The longest lease of units that the rules take ahead.
    prefetch: Duration,
}

impl From<&Rule> for PolicyUse {
    fn from(rule: &Rule) -> Self {
        let terms = rule.terms();
        Self {
            waits: !terms.wait.is_zero(),
            keeps_none: rule.in_flight_limit().is_none(),
            prefetch: terms.prefetch(),
        }
    }
}

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
        by: PolicyUse,
    ) -> (Arc<PolicySet>, Option<Arc<Policy>>) {
        let mut used = self.lock();
        let set = self.current();
        let policy = set.by_name.get(name).cloned();
        if policy.is_some() {
            let known = used.entry(name.to_owned()).or_default();
            known.waits |= by.waits;
            known.keeps_none |= by.keeps_none;
            known.prefetch = known.prefetch.max(by.prefetch);
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
    /// If a policy in use or required is missing, or does not go together with a rule that uses it.
    pub(crate) fn replace(&self, policies: Policies) -> Result<(), String> {
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
            let by = used.get(name)?;
            if by.waits && policy.stops_waiting() {
                return Some(waits_in_vain(name));
            }
            if by.keeps_none && policy.needs_permits() {
                return Some(keeps_none(name, "a rule that uses it"));
            }
            let mistake = policy.prefetch_mistake(by.prefetch)?;
            Some(misprefetched(name, &mistake))
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

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PolicyUse>> {
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

/// The message if a policy blocks and a rule that uses it waits.
pub(in crate::engine) fn waits_in_vain(policy: &str) -> String {
    format!(
        "the policy `{policy}` blocks, and a rule that uses it waits: a call either waits or is blocked: leave `block` out, \
         or write `wait = \"0s\"` in the policy"
    )
}

/// The message if a policy is for calls in flight, and this rule keeps no permits of them.
pub(in crate::engine) fn keeps_none(policy: &str, rule: &str) -> String {
    format!(
        "the policy `{policy}` is for calls in flight, and {rule} does not keep their permits: \
         give it `concurrent` too, or leave `concurrent` and `lease` out of the policy"
    )
}

/// The message if a rule takes units ahead, and its policy does not go together with that.
pub(in crate::engine) fn misprefetched(policy: &str, mistake: &str) -> String {
    format!(
        "a rule that uses the policy `{policy}` takes units ahead: {mistake}, or write \
         `prefetch = \"0s\"` in the policy"
    )
}

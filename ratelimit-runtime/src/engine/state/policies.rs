//! The policies of a limiter: putting a set in force, and the names that it needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::registry::{BoundRules, Registry};
use crate::observe::episodes::NO_POLICY;
use crate::rule::{Policies, Policy};

impl Registry {
    /// The number of policies.
    pub(crate) fn count(&self) -> usize {
        self.read().policies.len()
    }

    /// The policy of this name.
    ///
    /// # Errors
    ///
    /// The message to a check whose policy is unknown.
    pub(in crate::engine) fn policy(&self, name: &str) -> Result<Arc<Policy>, String> {
        let rules = self.read();
        let found = rules.policies.get(name).cloned();
        found.ok_or_else(|| rules.unknown(name))
    }

    /// The names that are not among the policies. If none is missing, a set that lacks one of them
    /// is refused from then on.
    pub(crate) fn require<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let mut rules = self.write();
        let missing = names.iter().copied();
        let missing: Vec<&str> = missing
            .filter(|name| !rules.policies.contains_key(*name))
            .collect();
        if missing.is_empty() {
            rules
                .required
                .extend(names.iter().copied().map(str::to_owned));
        }
        missing
    }

    /// Puts these policies in force, in place of all others.
    ///
    /// # Errors
    ///
    /// If a policy in use or required is missing, or does not go together with a rule that uses it,
    /// unless the rule's calls fail already under the policy in force.
    pub(crate) fn replace(&self, policies: Policies) -> Result<(), String> {
        let mut rules = self.write();
        let used = rules.under_policies().map(|(name, _)| name);
        let used = used.chain(rules.required.iter().map(String::as_str));
        let lacking: BTreeSet<&str> = used.filter(|name| !policies.contains_key(*name)).collect();
        if !lacking.is_empty() {
            let (noun, them) = if lacking.len() == 1 {
                ("policy", "it")
            } else {
                ("policies", "them")
            };
            let lacking = Vec::from_iter(lacking).join("`, `");
            return Err(format!(
                "the new set lacks the {noun} `{lacking}`, which rules use or `require_policies` \
                 names: give {them} limits in it, or take the rules away first"
            ));
        }
        let mistakes = rules.under_policies();
        let mistakes = mistakes.filter_map(|(name, bound)| {
            let mistake = bound.mistake_under(name, policies.get(name)?)?;
            // A rule that never worked must not keep all policies from changing.
            let in_force = rules.policies.get(name);
            let fails = in_force.is_some_and(|policy| bound.mistake_under(name, policy).is_some());
            (!fails).then_some(mistake)
        });
        if let Some(mistake) = mistakes.min() {
            return Err(mistake);
        }
        let policies = policies.into_iter();
        rules.policies = policies
            .map(|(name, policy)| (name, Arc::new(policy)))
            .collect();
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// The most names that a message lists. Four times as many characters of a call's policy are shown.
const LISTED: usize = 16;

impl BoundRules {
    /// The message to a check whose policy is unknown, with the names of the policies.
    #[cold]
    fn unknown(&self, name: &str) -> String {
        // A call may make the name from a client's text.
        let shown: String = name
            .chars()
            .take(4 * LISTED)
            .flat_map(char::escape_debug)
            .collect();
        if self.policies.is_empty() {
            return format!(
                "{NO_POLICY} `{shown}`: give it one with `RateLimiter::builder().policy(\"{shown}\", …)`"
            );
        }
        let mut names: Vec<&str> = self.policies.keys().map(String::as_str).collect();
        names.sort_unstable();
        let more = if names.len() > LISTED {
            " and others"
        } else {
            ""
        };
        names.truncate(LISTED);
        let names = names.join("`, `");
        format!(
            "{NO_POLICY} `{shown}`, only `{names}`{more}: give it that one, or use one of these"
        )
    }
}

//! [`Registry`]: the policies of a limiter, and the rules bound on it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::engine::bound::BoundRule;
use crate::error::RateLimitError;
use crate::rule::{Policy, Rule};
use crate::store::Reserves;

/// The most names whose bound rules are kept: names made at run time must not fill the memory.
/// Further rules are bound by each call, and their names are not compared.
const MOST: usize = 16_384;
/// The most bound rules of one name under one policy.
const MOST_ALIKE: usize = 64;

/// The policies of a limiter, and the rules bound on it.
#[derive(Default)]
pub(crate) struct Registry {
    /// The version of the policies in force, counted from 1; 0 before the first.
    pub(super) version: AtomicU64,
    /// A rule is bound, and policies are put in force, under this lock, so that no rule is bound
    /// between the look at the rules and the change.
    rules: RwLock<BoundRules>,
}

#[derive(Default)]
pub(in crate::engine) struct BoundRules {
    pub(in crate::engine) policies: HashMap<String, Arc<Policy>>,
    /// The names of policies that the service requires.
    pub(super) required: HashSet<String>,
    by_name: HashMap<Box<str>, Namesakes>,
}

/// The bound rules of one name.
#[derive(Default)]
struct Namesakes {
    /// By policy, whose name is empty for none: several if rules differ in other settings. Those
    /// under replaced policies stay if their windows or algorithm differ: a charge is given back
    /// under the terms by which it was made.
    by_policy: HashMap<Box<str>, Vec<Arc<BoundRule>>>,
    /// `true` once a second function of the name was reported.
    is_reported: bool,
}

impl Registry {
    #[inline]
    pub(in crate::engine) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, BoundRules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::engine) fn write(&self) -> RwLockWriteGuard<'_, BoundRules> {
        self.rules.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bound form of a rule under `policy`, for calls that reserve like this.
    pub(in crate::engine) fn find(
        &self,
        rule: &Rule,
        policy: Option<&str>,
        reserves: Reserves,
    ) -> Option<Arc<BoundRule>> {
        let rules = self.read();
        let namesakes = rules.by_name.get(&*rule.names().full)?;
        let mut alike = namesakes.by_policy.get(policy.unwrap_or_default())?.iter();
        let found = alike
            .find(|bound| bound.is_from(rule, reserves) && bound.is_current(|| self.version()));
        found.cloned()
    }

    /// The newest bound form of the rule whose terms have this hash.
    pub(in crate::engine) fn charged(
        &self,
        rule: &Rule,
        terms_hash: u32,
    ) -> Option<Arc<BoundRule>> {
        let rules = self.read();
        let namesakes = rules.by_name.get(&*rule.names().full)?;
        let charged = namesakes.by_policy.values().flatten();
        let charged = charged.filter(|bound| bound.terms_hash == terms_hash);
        charged.max_by_key(|bound| bound.origin.policies).cloned()
    }
}

impl BoundRules {
    /// The rules bound under policies, also under replaced ones.
    pub(super) fn under_policies(&self) -> impl Iterator<Item = (&str, &BoundRule)> {
        let by_policy = self.by_name.values().flat_map(|same| &same.by_policy);
        let by_policy = by_policy.filter(|(policy, _)| !policy.is_empty());
        by_policy.flat_map(|(policy, alike)| alike.iter().map(|bound| (&**policy, &**bound)))
    }

    /// Keeps a bound rule for further calls to find, in place of the one that it replaces.
    pub(in crate::engine) fn keep(&mut self, rule: &Rule, bound: &Arc<BoundRule>) {
        let policy = bound.policy.as_ref().map_or("", |found| &*found.name);
        let name = &rule.names().full;
        if self.by_name.len() >= MOST && !self.by_name.contains_key(name) {
            return;
        }
        let namesakes = self.by_name.entry(name.clone()).or_default();
        let alike = namesakes.by_policy.entry(policy.into()).or_default();
        alike.retain(|kept| {
            kept.terms_hash != bound.terms_hash || !kept.is_from(rule, bound.origin.reserves)
        });
        if alike.len() >= MOST_ALIKE {
            alike.remove(0);
        }
        alike.push(Arc::clone(bound));
    }

    /// Compares a rule with the others of its name. `true` if it is the first to show that two
    /// functions have the name.
    ///
    /// # Errors
    ///
    /// `Misconfigured` if rules of one explicit name have different windows or algorithms. Two
    /// functions with one derived name are only logged, once: the name was not chosen, and refusing
    /// calls would make things worse.
    pub(in crate::engine) fn compare(
        &mut self,
        rule: &Rule,
        bound: &BoundRule,
    ) -> Result<bool, RateLimitError> {
        let Some(namesakes) = self.by_name.get_mut(&*rule.names().full) else {
            return Ok(false);
        };
        let mut others = namesakes.by_policy.values().flatten();
        if let Some(site) = rule.site() {
            let is_other = others.any(|other| other.origin.site.is_some_and(|other| other != site));
            return Ok(is_other && !std::mem::replace(&mut namesakes.is_reported, true));
        }
        // A rule by hand may have the name of a function, and reaches the function's buckets; under
        // a policy its keys differ.
        if bound.policy.is_none()
            && others.any(|other| other.is_by_hand() && other.head != bound.head)
        {
            return Err(RateLimitError::misconfigured(format!(
                "the rate limit name `{}` is used with different windows or algorithms: give \
                 one of them another name",
                rule.name()
            )));
        }
        Ok(false)
    }
}

//! [`Registry`]: the bound rules of a limiter, so that a call finds its own instead of making it;
//! and the first rule of each name, with which later ones of that name have to agree.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::engine::bound::BoundRule;
use crate::error::RateLimitError;
use crate::observe;
use crate::rule::Rule;

/// The most names and bound rules that are kept: names made at run time must not fill the memory.
/// Further rules are bound by each call, and their names are not compared.
const MOST: usize = 16_384;

#[derive(Default)]
pub(in crate::engine) struct Registry {
    /// The rules bound without a policy.
    pub(in crate::engine) rules: BoundRules,
    /// The rules bound under policies, also those replaced since, the newest for each hash of
    /// their terms: a charge is given back under the terms by which it was made.
    by_terms: RwLock<HashMap<u32, Arc<BoundRule>>>,
    meanings: Mutex<HashMap<Box<str>, Meaning>>,
}

/// Bound rules, by name and policy: several of each if rules differ in other settings.
#[derive(Default)]
pub(in crate::engine) struct BoundRules(RwLock<BoundByName>);

#[derive(Default)]
struct BoundByName {
    by_name: HashMap<Box<str>, ByPolicy>,
    /// The number of names and policies.
    len: usize,
}

type ByPolicy = HashMap<Box<str>, Vec<Arc<BoundRule>>>;

/// The properties of the first rule of a name.
struct Meaning {
    /// The beginning of the stored keys: algorithm, windows, name.
    head: Box<[u8]>,
    /// The address of the rule, if its name is derived from a path.
    site: Option<usize>,
    /// `true` once a second function of the name was reported.
    is_reported: bool,
}

impl BoundRules {
    /// The bound form of a rule under `policy`, which is empty for none.
    pub(in crate::engine) fn find(&self, rule: &Rule, policy: &str) -> Option<Arc<BoundRule>> {
        let rules = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut bound = rules.by_name.get(&*rule.names().full)?.get(policy)?.iter();
        bound.find(|bound| bound.is_from(rule)).cloned()
    }

    pub(in crate::engine) fn insert(&self, rule: &Rule, policy: &str, bound: &Arc<BoundRule>) {
        let rules = &mut *self.0.write().unwrap_or_else(PoisonError::into_inner);
        if rules.len >= MOST {
            return;
        }
        let by_policy = rules.by_name.entry(rule.names().full.clone()).or_default();
        let bound_alike = by_policy.entry(policy.into()).or_default();
        rules.len += usize::from(bound_alike.is_empty());
        if bound_alike.len() < 64 {
            bound_alike.push(Arc::clone(bound));
        }
    }
}

impl Registry {
    pub(in crate::engine) fn keep(&self, bound: &Arc<BoundRule>) {
        let by_terms = self.by_terms.write();
        let mut by_terms = by_terms.unwrap_or_else(PoisonError::into_inner);
        if by_terms.len() < MOST || by_terms.contains_key(&bound.terms_hash) {
            by_terms.insert(bound.terms_hash, Arc::clone(bound));
        }
    }

    pub(in crate::engine) fn kept(&self, terms_hash: u32) -> Option<Arc<BoundRule>> {
        let by_terms = self.by_terms.read();
        let by_terms = by_terms.unwrap_or_else(PoisonError::into_inner);
        by_terms.get(&terms_hash).cloned()
    }

    /// Compares a rule, whose stored keys begin with `head`, with the first rule of its name.
    ///
    /// # Errors
    ///
    /// `Misconfigured` if rules of one explicit name have different windows or algorithms. Two
    /// functions with one derived name are only logged, once: the name was not chosen, and refusing
    /// calls would make things worse.
    pub(in crate::engine) fn compare(
        &self,
        rule: &Rule,
        head: &[u8],
    ) -> Result<(), RateLimitError> {
        let mut meanings = self.meanings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = meanings.get_mut(&*rule.names().full) else {
            if meanings.len() < MOST {
                let (head, site) = (head.into(), rule.site());
                let meaning = Meaning {
                    head,
                    site,
                    is_reported: false,
                };
                meanings.insert(rule.names().full.clone(), meaning);
            }
            return Ok(());
        };
        let name = rule.name();
        match (first.site, rule.site()) {
            (Some(first_site), Some(site)) if first_site != site => {
                if !std::mem::replace(&mut first.is_reported, true) {
                    observe::log::same_path(name);
                }
                Ok(())
            }
            (None, None) if *first.head != *head => Err(RateLimitError::misconfigured(format!(
                "the rate limit name `{name}` is used with different windows or algorithms: give \
                 one of them another name"
            ))),
            // Among others: a rule by hand under the name of a function, which reaches the
            // function's buckets.
            _ => Ok(()),
        }
    }
}

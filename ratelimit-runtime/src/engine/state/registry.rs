//! [`Registry`]: which rules a limiter has met, so that two meanings of one name never share a
//! budget unnoticed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::RateLimitError;
use crate::observe;
use crate::rule::Rule;

/// How many names are remembered. Names made at run time must not fill the memory; those beyond are
/// not compared.
const MAX_NAMES: usize = 16_384;

#[derive(Debug, Default)]
pub(in crate::engine) struct Registry {
    /// The first meaning of each name.
    names: Mutex<HashMap<Box<str>, Met>>,
}

#[derive(Debug)]
struct Met {
    /// The beginning of the stored keys: algorithm, windows, name.
    head: Box<str>,
    /// The address of the rule, for those whose name is derived from a path.
    site: Option<usize>,
    /// Whether a second function of the name has been reported.
    is_reported: bool,
}

impl Registry {
    /// Compares a rule with the first of its name.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when an explicit name stands for different windows or algorithms. Two
    /// functions of one derived name are only logged, once: the name was not chosen, and refusing
    /// calls would make things worse.
    pub(in crate::engine) fn meet(&self, rule: &Rule) -> Result<(), RateLimitError> {
        let (name, site) = (rule.full_name(), site(rule));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(met) = names.get_mut(&*name) else {
            if names.len() < MAX_NAMES {
                let met = Met {
                    head: rule.head().into(),
                    site,
                    is_reported: false,
                };
                names.insert(name.into_owned().into_boxed_str(), met);
            }
            return Ok(());
        };
        let rule_name = rule.name();
        match (met.site, site) {
            (Some(first), Some(site)) if first != site => {
                if !std::mem::replace(&mut met.is_reported, true) {
                    observe::log::same_path(rule_name);
                }
                Ok(())
            }
            (None, None) if *met.head != *rule.head() => {
                Err(RateLimitError::misconfigured(format!(
                    "the rate limit name `{rule_name}` is used with different windows or algorithms: give one of them \
                 another name"
                )))
            }
            // Among others: a rule by hand under the name of a function, which reaches the
            // function's buckets.
            _ => Ok(()),
        }
    }
}

/// Where a rule with a derived name stands: there is one per function.
fn site(rule: &Rule) -> Option<usize> {
    rule.is_derived().then_some(std::ptr::from_ref(rule).addr())
}

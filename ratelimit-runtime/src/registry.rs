//! [`Registry`]: which rules a limiter has met, so that two meanings of one name never share a budget unnoticed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use crate::RateLimitError;
use crate::rule::{Algorithm, Rule};

/// How many names are remembered. Names made at run time must not fill the memory; those beyond are not compared.
const MAX_NAMES: usize = 16_384;

#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// The head of the stored keys (algorithm and windows) under which a name was first met.
    heads: Mutex<HashMap<Box<str>, Met>>,
}

#[derive(Debug)]
struct Met {
    head: Box<str>,
    /// Whether its log may be kept in the form for short ones.
    unit_log: bool,
    /// The address of the rule, for those whose name is derived from a path.
    site: Option<usize>,
}

impl Registry {
    /// Compares a rule with the first of its name.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when an explicit name stands for different windows or algorithms. Two functions of one derived
    /// name are only logged: nobody chose the name, and refusing calls would make things worse.
    pub(crate) fn vet(&self, rule: &Rule) -> Result<(), RateLimitError> {
        let resolved = rule.resolved();
        let site = rule.is_derived().then_some(std::ptr::from_ref(rule).addr());
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if heads.len() >= MAX_NAMES {
            return Ok(());
        }
        let met = match heads.entry(rule.full_name().into_owned().into_boxed_str()) {
            Entry::Vacant(entry) => {
                entry.insert(Met { head: resolved.head.clone(), unit_log: rule.is_unit_log(), site });
                return Ok(());
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        if rule.is_derived() || met.site.is_some() {
            if met.site != site {
                tracing::error!(
                    rule = resolved.label,
                    "two functions have the same path, and their rate limits one name: \
                     give one of them a name of its own, `name = \"…\"`"
                );
            }
            return Ok(());
        }
        if met.head == resolved.head {
            if met.unit_log != rule.is_unit_log() && rule.kept_as() == Algorithm::SlidingWindow {
                tracing::error!(
                    rule = resolved.label,
                    "rules of one name do not share their budget on Redis: for one the log is kept as a sorted set, for \
                     the other as a ring (above 128, with `cost`, `count` or a computed `max`); make them alike, or \
                     force one form with `RedisStore::log_layout`"
                );
            }
            return Ok(());
        }
        Err(RateLimitError::misconfigured(format!(
            "the rate limit name `{}` is used with different windows or algorithms: give one of them another name",
            resolved.label
        )))
    }
}

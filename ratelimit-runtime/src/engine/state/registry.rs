//! [`Registry`]: which rules a limiter has met, so that two meanings of one name never share a
//! budget unnoticed.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::error::RateLimitError;
use crate::observe;
use crate::rule::Rule;

/// How many names are remembered. Names made at run time must not fill the memory; those beyond are
/// not compared.
const MAX_NAMES: usize = 16_384;

#[derive(Debug, Default)]
pub(in crate::engine) struct Registry {
    /// What each name stood for when it was first met.
    names: RwLock<HashMap<Box<str>, Met>>,
}

#[derive(Debug)]
struct Met {
    /// What the stored keys begin with: algorithm, windows, name.
    head: Box<str>,
    /// The address of the rule, for those whose name is derived from a path.
    site: Option<usize>,
    /// Whether a second meaning has been reported.
    reported: bool,
}

/// How a rule differs from the first of its name.
enum Difference {
    None,
    /// Two functions have one path.
    Site,
    /// Other windows, or another algorithm.
    Head,
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
        let name = rule.full_name();
        let known = {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            names.get(&*name).map(|met| (met.differs(rule), met.reported))
        };
        let Some((difference, reported)) = known else {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            if names.len() < MAX_NAMES {
                names.entry(name.into_owned().into_boxed_str()).or_insert_with(|| Met::new(rule));
            }
            return Ok(());
        };
        let rule_name = rule.name();
        match difference {
            Difference::None => return Ok(()),
            Difference::Head => {
                return Err(RateLimitError::misconfigured(format!(
                    "the rate limit name `{rule_name}` is used with different windows or algorithms: give one of them \
                     another name"
                )));
            }
            Difference::Site if reported => return Ok(()),
            Difference::Site => observe::log::same_path(rule_name),
        }
        if let Some(met) = self.names.write().unwrap_or_else(PoisonError::into_inner).get_mut(&*name) {
            met.reported = true;
        }
        Ok(())
    }
}

impl Met {
    fn new(rule: &Rule) -> Self {
        Self { head: rule.head().into(), site: site(rule), reported: false }
    }

    fn differs(&self, rule: &Rule) -> Difference {
        match (self.site, site(rule)) {
            (Some(a), Some(b)) if a == b => Difference::None,
            (Some(_), Some(_)) => Difference::Site,
            (None, None) if *self.head != *rule.head() => Difference::Head,
            // Among others: a rule by hand under the name of a function, which is how its buckets
            // are reached.
            _ => Difference::None,
        }
    }
}

/// Where a rule with a derived name stands: there is one per function.
fn site(rule: &Rule) -> Option<usize> {
    rule.is_derived().then_some(std::ptr::from_ref(rule).addr())
}

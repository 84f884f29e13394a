//! [`Summaries`]: the summaries of a limiter's rules, for operators.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::rule::RuleSummary;

/// The most summaries kept: names made at run time must fill neither the memory nor the store.
const MOST: usize = 1_000;

/// The latest summary of each rule, by its field in the store's hash.
#[derive(Default)]
pub(crate) struct Summaries(Mutex<BTreeMap<String, RuleSummary>>);

impl Summaries {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RuleSummary>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the summary of a rule in place of an earlier one; `false` if too many others are kept.
    pub(in crate::engine) fn keep(&self, summary: &RuleSummary) -> bool {
        let (field, mut all) = (summary.field(), self.lock());
        let has_room = all.len() < MOST || all.contains_key(&field);
        if has_room {
            all.insert(field, summary.clone());
        }
        has_room
    }

    /// All summaries, ordered by field.
    pub(crate) fn list(&self) -> Vec<RuleSummary> {
        self.lock().values().cloned().collect()
    }
}

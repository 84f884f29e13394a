//! [`Rules`]: the heads and limits that keys have in common, kept once for all of them.

use std::sync::Arc;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use crate::rule::Limit;

/// The rules of the stored keys, by their heads. A rule without keys is dropped.
#[derive(Default)]
pub(super) struct Rules {
    families: HashMap<Vec<u8>, Family, RandomState>,
    /// The number of families with more keys than the index. The last is not 0, so the length is
    /// the number of keys of the largest family.
    larger: Vec<u32>,
}

/// The keys with one head.
#[derive(Default)]
struct Family {
    /// The number of keys.
    keys: usize,
    /// The rules of the keys, by limits. There are at most as many as keys.
    rules: HashMap<Vec<Limit>, Arc<KeyHead>, RandomState>,
}

/// The head and the limits that several keys have in common.
pub(super) struct KeyHead {
    /// The beginning of the keys.
    pub(super) head: Box<[u8]>,
    /// The limits of their latest calls. Windows are fixed for a key, but each `max` may differ
    /// from call to call: then the key moves to another rule with the same head.
    pub(super) limits: Box<[Limit]>,
}

impl Rules {
    /// The number of keys that have the head of this rule.
    pub(super) fn of_family(&self, rule: &KeyHead) -> usize {
        let family = self.families.get(&*rule.head);
        debug_assert!(family.is_some(), "the rule of a stored key is counted");
        family.map_or(0, |family| family.keys)
    }

    /// The number of keys that have the most frequent head.
    pub(super) fn of_largest_family(&self) -> usize {
        self.larger.len()
    }

    /// Counts a new key with this head, and returns its rule.
    pub(super) fn add_key(&mut self, head: &[u8], limits: &[Limit]) -> Arc<KeyHead> {
        let family = self.families.entry_ref(head).or_default();
        match self.larger.get_mut(family.keys) {
            Some(families) => *families += 1,
            None => self.larger.push(1),
        }
        family.keys += 1;
        let rule = || {
            Arc::new(KeyHead {
                head: head.into(),
                limits: limits.into(),
            })
        };
        Arc::clone(family.rules.entry_ref(limits).or_insert_with(rule))
    }

    /// Removes a key of the rule from the counts.
    pub(super) fn remove_key(&mut self, rule: &Arc<KeyHead>) {
        let Some(family) = self.families.get_mut(&*rule.head) else {
            debug_assert!(false, "the rule of a stored key is counted");
            return;
        };
        family.keys -= 1;
        if let Some(families) = self.larger.get_mut(family.keys) {
            *families -= 1;
        }
        self.larger.pop_if(|families| *families == 0);
        if family.keys == 0 {
            self.families.remove(&*rule.head);
        } else if Arc::strong_count(rule) == 2 {
            // The other reference is that of the family.
            family.rules.remove(&*rule.limits);
        }
    }

    /// Moves a key to the rule with its head and these limits.
    #[cold]
    pub(super) fn change(&mut self, rule: &mut Arc<KeyHead>, limits: &[Limit]) {
        let changed = self.add_key(&rule.head, limits);
        self.remove_key(rule);
        *rule = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_no_key_has_any_more_are_dropped() {
        let mut rules = Rules::default();
        let mut rule = rules.add_key(b"head", &[Limit::per_minute(1)]);
        for max in 2..5 {
            rules.change(&mut rule, &[Limit::per_minute(max)]);
        }
        let family = rules.families.get(&b"head"[..]);
        assert_eq!(family.map(|family| family.rules.len()), Some(1));
    }
}

//! [`Rules`]: head and limits that keys have in common, kept once for all of them.

use std::sync::Arc;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use crate::rule::Limit;

/// The rules of the stored keys, by their heads. A rule without keys is forgotten.
#[derive(Default)]
pub(super) struct Rules {
    families: HashMap<Vec<u8>, Family, RandomState>,
}

/// Keys with the same head.
#[derive(Default)]
struct Family {
    /// How many keys there are.
    keys: usize,
    /// Their rules, by limits. There are no more rules than keys.
    rules: HashMap<Vec<Limit>, Arc<Rule>, RandomState>,
}

/// The head and the limits that some keys have in common.
pub(super) struct Rule {
    /// The beginning of these keys.
    pub(super) head: Box<[u8]>,
    /// The limits of their last calls. Windows are fixed for a key, and every `max` may differ from
    /// call to call: then the key moves to another rule with the same head.
    pub(super) limits: Box<[Limit]>,
}

impl Rules {
    /// How many keys have the head of this rule.
    pub(super) fn of_family(&self, rule: &Rule) -> usize {
        let family = self.families.get(&*rule.head);
        debug_assert!(family.is_some(), "the rule of a stored key is counted");
        family.map_or(0, |family| family.keys)
    }

    /// How many keys have the most common head.
    pub(super) fn of_largest_family(&self) -> usize {
        self.families
            .values()
            .map(|family| family.keys)
            .max()
            .unwrap_or(0)
    }

    /// Counts one more key with this head; returns its rule.
    pub(super) fn enter(&mut self, head: &[u8], limits: &[Limit]) -> Arc<Rule> {
        let family = self.families.entry_ref(head).or_default();
        family.keys += 1;
        let rule = || {
            Arc::new(Rule {
                head: head.into(),
                limits: limits.into(),
            })
        };
        Arc::clone(family.rules.entry_ref(limits).or_insert_with(rule))
    }

    /// Counts one key of the rule less.
    pub(super) fn leave(&mut self, rule: &Arc<Rule>) {
        let Some(family) = self.families.get_mut(&*rule.head) else {
            debug_assert!(false, "the rule of a stored key is counted");
            return;
        };
        family.keys -= 1;
        if family.keys == 0 {
            self.families.remove(&*rule.head);
        } else if Arc::strong_count(rule) == 2 {
            // The other reference is that of the family.
            family.rules.remove(&*rule.limits);
        }
    }

    /// Moves a key to the rule with the same head and these limits.
    #[cold]
    pub(super) fn change(&mut self, rule: &mut Arc<Rule>, limits: &[Limit]) {
        let changed = self.enter(&rule.head, limits);
        self.leave(rule);
        *rule = changed;
    }
}

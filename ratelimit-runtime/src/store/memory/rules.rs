//! [`Rules`]: what keys have in common, kept once for all of them.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::rule::Limit;

/// What keys have in common, by what they begin with. What no key has is forgotten.
#[derive(Default)]
pub(super) struct Rules {
    families: HashMap<Box<[u8]>, Family, RandomState>,
}

/// Keys with the same head.
#[derive(Default)]
struct Family {
    /// How many there are.
    keys: usize,
    /// What they have in common, by limits. There are no more than keys.
    rules: HashMap<Box<[Limit]>, Arc<Rule>, RandomState>,
}

/// What some keys have in common.
pub(super) struct Rule {
    /// What they begin with.
    pub(super) head: Box<[u8]>,
    /// The limits of their last calls. Windows are fixed for a key, and every `max` may differ from
    /// call to call: then the key moves to another rule with the same head.
    pub(super) limits: Box<[Limit]>,
}

impl Rules {
    /// How many keys have the head of this rule.
    pub(super) fn of_family(&self, rule: &Rule) -> usize {
        self.families.get(&rule.head).map_or(0, |family| family.keys)
    }

    /// How many keys have the head that most of them have.
    pub(super) fn of_largest_family(&self) -> usize {
        self.families.values().map(|family| family.keys).max().unwrap_or(0)
    }

    /// The rule of one more key that begins like this.
    pub(super) fn enter(&mut self, head: &[u8], limits: &[Limit]) -> Arc<Rule> {
        if !self.families.contains_key(head) {
            self.families.insert(head.into(), Family::default());
        }
        let rule = || Arc::new(Rule { head: head.into(), limits: limits.into() });
        let Some(family) = self.families.get_mut(head) else { return rule() };
        family.keys += 1;
        match family.rules.get(limits) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(family.rules.entry(limits.into()).or_insert_with(rule)),
        }
    }

    /// A key of the rule has gone.
    pub(super) fn leave(&mut self, rule: &Arc<Rule>) {
        let Some(family) = self.families.get_mut(&rule.head) else { return };
        family.keys -= 1;
        if family.keys == 0 {
            self.families.remove(&rule.head);
        } else if Arc::strong_count(rule) == 2 {
            // The other is the family's.
            family.rules.remove(&rule.limits);
        }
    }

    /// Gives a key of the rule that of a call with other limits.
    #[cold]
    pub(super) fn change(&mut self, rule: &mut Arc<Rule>, limits: &[Limit]) {
        let changed = self.enter(&rule.head, limits);
        self.leave(rule);
        *rule = changed;
    }
}

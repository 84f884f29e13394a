//! [`Rules`]: what keys have in common, kept once for all of them.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::rule::Limit;

/// What keys have in common, by numbers that their entries have. What no key has is forgotten.
#[derive(Default)]
pub(super) struct Rules {
    by_number: Vec<Rule>,
    /// Numbers of none.
    free: Vec<u32>,
    /// The numbers, by heads and limits.
    index: HashTable<u32>,
    /// How many keys have the same head, by its hash.
    families: HashMap<u64, usize, RandomState>,
}

/// What some keys have in common.
pub(super) struct Rule {
    /// What they begin with.
    pub(super) head: Box<[u8]>,
    /// The limits of their last calls. Windows are fixed for a key, and every `max` may differ from
    /// call to call: then the key moves to another rule with the same head.
    pub(super) limits: Box<[Limit]>,
    /// The hash of the head.
    family: u64,
    keys: usize,
}

impl Rules {
    #[inline]
    pub(super) fn get(&self, rule: u32) -> Option<&Rule> {
        self.by_number.get(rule as usize)
    }

    /// How many keys have the head of this rule.
    pub(super) fn of_family(&self, rule: u32) -> usize {
        self.get(rule).and_then(|rule| self.families.get(&rule.family)).copied().unwrap_or(0)
    }

    /// How many keys have the head that most of them have.
    pub(super) fn of_largest_family(&self) -> usize {
        self.families.values().copied().max().unwrap_or(0)
    }

    /// The rule of one more key that begins like this.
    pub(super) fn enter(&mut self, head: &[u8], limits: &[Limit]) -> u32 {
        let family = self.families.hasher().hash_one(head);
        *self.families.entry(family).or_default() += 1;
        if let Some(number) = self.find(head, limits) {
            if let Some(rule) = self.by_number.get_mut(number as usize) {
                rule.keys += 1;
            }
            return number;
        }
        let rule = Rule { head: head.into(), limits: limits.into(), family, keys: 1 };
        // There are no more rules than keys.
        let number = self.free.pop().unwrap_or(u32::try_from(self.by_number.len()).unwrap_or(u32::MAX));
        match self.by_number.get_mut(number as usize) {
            Some(free) => *free = rule,
            None => self.by_number.push(rule),
        }
        self.add_to_index(number);
        number
    }

    /// A key of the rule has gone.
    pub(super) fn leave(&mut self, number: u32) {
        let Some(rule) = self.by_number.get_mut(number as usize) else { return };
        rule.keys -= 1;
        if let Some(keys) = self.families.get_mut(&rule.family) {
            *keys -= 1;
            if *keys == 0 {
                self.families.remove(&rule.family);
            }
        }
        if rule.keys == 0 {
            self.remove_from_index(number);
            self.free.push(number);
        }
    }

    /// The rule of a key of that rule whose call had other limits.
    #[cold]
    pub(super) fn change(&mut self, number: u32, limits: &[Limit]) -> u32 {
        let Some(rule) = self.get(number) else { return number };
        if rule.keys == 1 && rule.limits.len() == limits.len() && self.find(&rule.head, limits).is_none() {
            self.remove_from_index(number);
            if let Some(rule) = self.by_number.get_mut(number as usize) {
                rule.limits.copy_from_slice(limits);
            }
            self.add_to_index(number);
            return number;
        }
        let head: SmallVec<[u8; 128]> = rule.head[..].into();
        let changed = self.enter(&head, limits);
        self.leave(number);
        changed
    }

    fn find(&self, head: &[u8], limits: &[Limit]) -> Option<u32> {
        let is_it = |rule: &Rule| *rule.head == *head && *rule.limits == *limits;
        let hash = self.families.hasher().hash_one((head, limits));
        self.index.find(hash, |number| self.get(*number).is_some_and(is_it)).copied()
    }

    fn add_to_index(&mut self, number: u32) {
        let Self { by_number, index, families, .. } = self;
        let hash = |number: &u32| {
            by_number.get(*number as usize).map_or(0, |rule| families.hasher().hash_one((&*rule.head, &*rule.limits)))
        };
        index.insert_unique(hash(&number), number, hash);
    }

    fn remove_from_index(&mut self, number: u32) {
        let Some(rule) = self.by_number.get(number as usize) else { return };
        let hash = self.families.hasher().hash_one((&*rule.head, &*rule.limits));
        if let Ok(known) = self.index.find_entry(hash, |other| *other == number) {
            known.remove();
        }
    }
}

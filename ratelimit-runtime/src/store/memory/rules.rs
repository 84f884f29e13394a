//! [`Rules`]: what keys have in common, kept once for all of them.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;

use crate::rule::Limit;
use crate::store::Request;

/// What keys have in common, by numbers that their entries have. What no key has is forgotten.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
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
        self.rules.get(rule as usize)
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
    pub(super) fn enter(&mut self, head: &[u8], request: &Request<'_>) -> u32 {
        let (hasher, limits) = (self.families.hasher(), request.limits());
        let hash_of = |head: &[u8], limits: &[Limit]| hasher.hash_one((head, limits));
        let (hash, family) = (hash_of(head, limits), hasher.hash_one(head));
        *self.families.entry(family).or_default() += 1;
        let rules = &mut self.rules;
        let is_same =
            |at: &u32| rules.get(*at as usize).is_some_and(|rule| *rule.head == *head && *rule.limits == *limits);
        if let Some(known) = self.index.find(hash, is_same).copied() {
            if let Some(rule) = rules.get_mut(known as usize) {
                rule.keys += 1;
            }
            return known;
        }
        let rule = Rule { head: head.into(), limits: limits.into(), family, keys: 1 };
        let number = match self.free.pop() {
            Some(number) => number,
            // There are no more rules than keys.
            None => u32::try_from(rules.len()).unwrap_or(u32::MAX),
        };
        match rules.get_mut(number as usize) {
            Some(free) => *free = rule,
            None => rules.push(rule),
        }
        let hasher = self.families.hasher();
        let rehash = |at: &u32| rules.get(*at as usize).map_or(0, |rule| hasher.hash_one((&*rule.head, &*rule.limits)));
        self.index.insert_unique(hash, number, rehash);
        number
    }

    /// A key of the rule has gone.
    pub(super) fn leave(&mut self, number: u32) {
        let Some(rule) = self.rules.get_mut(number as usize) else { return };
        rule.keys -= 1;
        if let Some(keys) = self.families.get_mut(&rule.family) {
            *keys -= 1;
            if *keys == 0 {
                self.families.remove(&rule.family);
            }
        }
        if rule.keys == 0 {
            let hash = self.families.hasher().hash_one((&*rule.head, &*rule.limits));
            if let Ok(known) = self.index.find_entry(hash, |at| *at == number) {
                known.remove();
            }
            rule.head = Box::default();
            self.free.push(number);
        }
    }

    /// The rule of a key of that rule whose call had other limits.
    #[cold]
    pub(super) fn change(&mut self, number: u32, request: &Request<'_>) -> u32 {
        let head: SmallVec<[u8; 128]> = self.get(number).map(|rule| rule.head[..].into()).unwrap_or_default();
        let changed = self.enter(&head, request);
        self.leave(number);
        changed
    }
}

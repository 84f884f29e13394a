//! Algorithms that keep a few numbers per limit: what they have in common.

use smallvec::SmallVec;

use super::{Kept, Standing};
use crate::rule::Limit;

/// The state of one limit, as a value: bringing it to a later time makes another, and only a charge keeps it. So a
/// refusal changes nothing, in memory as in Redis.
pub(super) trait Counter: Copy + Default {
    /// The state at `now`.
    fn at(self, limit: &Limit, now: u64) -> Self;

    /// Where the limit stands; the state is at `now`.
    fn standing(&self, limit: &Limit, cost: u64, now: u64) -> Standing;

    /// Charges; the state is at `now`.
    fn charge(&mut self, limit: &Limit, cost: u64, now: u64);

    /// Gives back up to `cost` of a charge made at `then`, as far as it still counts; the state is at a later time.
    /// Says whether anything of it did.
    fn refund(&mut self, limit: &Limit, cost: u64, then: u64) -> bool;

    /// How long the state matters; it is at `now`, and has just been charged.
    fn life(&self, limit: &Limit, now: u64) -> u64;
}

/// One counter per limit, in the order of the limits.
#[derive(Debug)]
pub(super) struct Counters<C> {
    each: SmallVec<[C; 1]>,
    /// How much of what was charged is reserved. Counters cannot tell one charge from another.
    held: u64,
    /// The last time anything was reserved: what was never settled is forgotten with what it was charged to.
    held_at: u64,
}

impl<C> Default for Counters<C> {
    fn default() -> Self {
        Self { each: SmallVec::new(), held: 0, held_at: 0 }
    }
}

impl<C: Counter> Counters<C> {
    fn brought<'a>(&'a self, limits: &'a [Limit], now: u64) -> impl Iterator<Item = (&'a Limit, C)> {
        limits.iter().enumerate().map(move |(index, limit)| {
            let counter = self.each.get(index).copied().unwrap_or_default();
            (limit, counter.at(limit, now))
        })
    }

    /// What was reserved a window ago, and never settled, counts as charged.
    fn forget_held(&mut self, limits: &[Limit], now: u64) {
        let longest = limits.iter().map(Limit::window_us).max().unwrap_or(0);
        if now >= self.held_at + longest {
            self.held = 0;
        }
    }

    fn settle(&mut self, cost: u64) -> bool {
        let held = self.held > 0;
        self.held = self.held.saturating_sub(cost);
        held
    }
}

impl<C: Counter> Kept for Counters<C> {
    fn standings(&mut self, limits: &[Limit], cost: u64, now: u64) -> SmallVec<[Standing; 2]> {
        self.brought(limits, now).map(|(limit, counter)| counter.standing(limit, cost, now)).collect()
    }

    fn standings_unheld(&mut self, limits: &[Limit], cost: u64, now: u64) -> SmallVec<[Standing; 2]> {
        self.forget_held(limits, now);
        let unheld = self.brought(limits, now).map(|(limit, mut counter)| {
            counter.refund(limit, self.held, self.held_at);
            counter.standing(limit, cost, now)
        });
        unheld.collect()
    }

    fn charge(&mut self, limits: &[Limit], cost: u64, now: u64, held: bool) -> u64 {
        let charged = self.brought(limits, now).map(|(limit, mut counter)| {
            counter.charge(limit, cost, now);
            counter
        });
        self.each = charged.collect();
        self.forget_held(limits, now);
        if held {
            self.held += cost;
            self.held_at = now;
        }
        now
    }

    fn life(&self, limits: &[Limit], now: u64) -> u64 {
        limits.iter().zip(&self.each).map(|(limit, counter)| counter.life(limit, now)).max().unwrap_or(0)
    }

    fn refund(&mut self, limits: &[Limit], cost: u64, ticket: u64, now: u64, held: bool) -> bool {
        self.forget_held(limits, now);
        if held {
            self.settle(cost);
        }
        let mut any = false;
        let refunded = self.brought(limits, now).map(|(limit, mut counter)| {
            any |= counter.refund(limit, cost, ticket);
            counter
        });
        let refunded = refunded.collect();
        if any {
            self.each = refunded;
        }
        any
    }

    fn commit(&mut self, limits: &[Limit], cost: u64, _: u64, now: u64) -> bool {
        self.forget_held(limits, now);
        self.settle(cost)
    }
}

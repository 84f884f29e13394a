//! Algorithms that keep a few numbers per limit: what they have in common.

use smallvec::{SmallVec, smallvec};

use super::{Kept, Standing};
use crate::rule::Limit;

/// The state of one limit, as a value: bringing it to a later time makes another, and only a charge keeps it. So a
/// refusal changes nothing, in memory as in Redis.
pub(super) trait Cell: Copy + Default {
    /// The state at `now`.
    fn at(self, limit: &Limit, now: u64) -> Self;

    /// Where the limit stands; the state is at `now`.
    fn standing(&self, limit: &Limit, cost: u64, now: u64) -> Standing;

    /// Charges; the state is at `now`.
    fn charge(&mut self, limit: &Limit, cost: u64, now: u64);

    /// How long the state matters; it is at `now`, and has just been charged.
    fn life(&self, limit: &Limit, now: u64) -> u64;
}

/// One cell per limit, in the order of the limits.
#[derive(Debug)]
pub(super) struct Cells<C>(SmallVec<[C; 1]>);

impl<C> Default for Cells<C> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<C: Cell> Cells<C> {
    fn brought<'a>(&'a self, limits: &'a [Limit], now: u64) -> impl Iterator<Item = (&'a Limit, C)> {
        limits.iter().enumerate().map(move |(index, limit)| {
            let cell = self.0.get(index).copied().unwrap_or_default();
            (limit, cell.at(limit, now))
        })
    }
}

impl<C: Cell> Kept for Cells<C> {
    fn standings(&mut self, limits: &[Limit], cost: u64, now: u64) -> SmallVec<[Standing; 2]> {
        self.brought(limits, now).map(|(limit, cell)| cell.standing(limit, cost, now)).collect()
    }

    fn charge(&mut self, limits: &[Limit], cost: u64, now: u64) -> u64 {
        let mut life = 0;
        let mut charged: SmallVec<[C; 1]> = smallvec![];
        for (limit, mut cell) in self.brought(limits, now) {
            cell.charge(limit, cost, now);
            life = life.max(cell.life(limit, now));
            charged.push(cell);
        }
        self.0 = charged;
        life
    }
}

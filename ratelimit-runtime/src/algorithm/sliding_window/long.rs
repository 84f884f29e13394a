//! [`Long`]: the units of a log of any size, with what is to be settled and what is shared.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::rule::Limit;

/// What is more than a few charges.
#[derive(Debug, Default)]
pub(super) struct Long {
    /// The tickets of the units, ascending.
    pub(super) units: VecDeque<u64>,
    /// The units of reservations that are to be settled, ascending: they are among the units.
    pub(super) open: Vec<Open>,
    /// Of a log that was copied: what others used. It is older than all units.
    pub(super) shared: SmallVec<[Shared; 1]>,
}

/// A reservation that is to be settled: its tickets follow each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Else it is a charge.
    pub(super) is_estimate: bool,
}

/// Units that leave together, with the newest of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    pub(super) last: u64,
    pub(super) units: u64,
}

/// What of a log is in one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    window: u64,
    /// The newest ticket that has left it.
    edge: u64,
    /// How many of the units have.
    skip: usize,
    /// How many count, also of what is shared.
    pub(super) used: u64,
}

impl Long {
    /// Whether units are all there is.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.open.is_empty() && self.shared.is_empty()
    }

    /// What counts against a limit.
    pub(super) fn view(&self, limit: &Limit, now: u64) -> View {
        let window = limit.window_us();
        let edge = now.saturating_sub(window);
        let skip = self.position(edge + 1);
        let shared: u64 = self.shared.iter().filter(|shared| shared.last > edge).map(|shared| shared.units).sum();
        View { window, edge, skip, used: shared + (self.units.len() - skip) as u64 }
    }

    /// The position of the first unit from this ticket on.
    fn position(&self, ticket: u64) -> usize {
        // Under a single limit nothing has left the window that is still here.
        match self.units.front() {
            Some(first) if *first < ticket => self.units.partition_point(|unit| *unit < ticket),
            _ => 0,
        }
    }

    /// How many units in the window are reserved by `count`.
    pub(super) fn reserved(&self, view: View) -> u64 {
        self.reservations(view).map(|(first, last)| last + 1 - first).sum()
    }

    /// The units of each reservation by `count` that are in the window.
    fn reservations(&self, view: View) -> impl Iterator<Item = (u64, u64)> {
        let reserved = self.open.iter().filter(move |open| !open.is_estimate && open.last > view.edge);
        reserved.map(move |open| (open.first.max(view.edge + 1), open.last))
    }

    /// How long until so many units have left the window; without those that are reserved by
    /// `count`, if they count as released.
    pub(super) fn wait(&self, view: View, units: u64, released: bool, now: u64) -> u64 {
        let mut before = units - 1;
        for shared in self.shared.iter().filter(|shared| shared.last > view.edge) {
            match before.checked_sub(shared.units) {
                Some(rest) => before = rest,
                None => return shared.last + view.window - now,
            }
        }
        let mut position = view.skip.saturating_add(usize::try_from(before).unwrap_or(usize::MAX));
        if released {
            for (first, last) in self.reservations(view) {
                if self.position(first) > position {
                    break;
                }
                position = position.saturating_add(usize::try_from(last + 1 - first).unwrap_or(usize::MAX));
            }
        }
        self.units.get(position).map_or(0, |last| last + view.window - now)
    }

    /// Lets go of what is not newer than this; returns the newest of it, or 0.
    pub(super) fn let_go(&mut self, edge: u64) -> u64 {
        let is_past = |at: usize| self.units.get(at).is_some_and(|unit| *unit <= edge);
        // Where calls come evenly, each finds one that has left.
        let gone = match (is_past(0), is_past(1)) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => self.position(edge + 1),
        };
        let newest = gone.checked_sub(1).and_then(|last| self.units.get(last)).copied().unwrap_or(0);
        if gone == 1 {
            self.units.pop_front();
        } else {
            self.units.drain(..gone);
        }
        if self.units.capacity() > 64 && self.units.len() < self.units.capacity() / 4 {
            self.units.shrink_to(self.units.len() * 2);
        }
        if !self.is_plain() {
            self.open.retain(|open| open.last > edge);
            self.shared.retain(|shared| shared.last > edge);
        }
        newest
    }

    /// Removes the units from one ticket to another, but for those that are to be settled; says
    /// whether there were any.
    pub(super) fn remove(&mut self, from: u64, to: u64) -> bool {
        let (start, end) = (self.position(from), self.position(to.saturating_add(1)));
        let open = &self.open;
        let is_open = |unit: u64| {
            let next = open.partition_point(|open| open.last < unit);
            open.get(next).is_some_and(|open| open.first <= unit)
        };
        let removed: Vec<u64> = self.units.drain(start..end.max(start)).collect();
        let staying = removed.iter().filter(|unit| is_open(**unit));
        let mut stay = 0;
        for (at, unit) in staying.enumerate() {
            self.units.insert(start + at, *unit);
            stay += 1;
        }
        removed.len() > stay
    }

    /// What others used before a copy, in as many steps as there are limits: what is in the same
    /// windows leaves them with its newest unit.
    pub(super) fn share(&self, limits: &[Limit], now: u64) -> SmallVec<[Shared; 1]> {
        // The longest window first: what has left the next one is a step.
        let mut views: SmallVec<[View; 4]> = limits.iter().map(|limit| self.view(limit, now)).collect();
        views.sort_unstable_by_key(|view| view.skip);
        let ends = views.iter().skip(1).map(|view| view.skip).chain([self.units.len()]);
        let steps = views.iter().zip(ends).filter_map(|(view, end)| {
            let last = *self.units.get(end.checked_sub(1)?)?;
            (end > view.skip).then(|| Shared { last, units: (end - view.skip) as u64 })
        });
        self.shared.iter().copied().chain(steps).collect()
    }
}

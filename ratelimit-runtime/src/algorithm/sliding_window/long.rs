//! [`Long`]: the units of a log of any size, with the reservations that are to be settled.

use std::collections::VecDeque;

use crate::rule::Limit;

/// A log of more than a few charges.
#[derive(Debug, Default)]
pub(super) struct Long {
    /// The tickets of the units, ascending.
    pub(super) units: VecDeque<u64>,
    /// The units of reservations that are to be settled, ascending: they are among the units.
    open: VecDeque<Open>,
    /// How many units, of all ever, were reserved by `count` before the first of them.
    reserved_before: u64,
}

/// A reservation that is to be settled: its tickets follow each other.
#[derive(Debug, Clone, Copy)]
struct Open {
    first: u64,
    last: u64,
    /// Whether it is a charge, and not reserved by `count`.
    is_estimate: bool,
    /// How many units, of all ever, were reserved by `count` up to its last: the difference of two
    /// such counts is the number of units between them.
    reserved: u64,
}

/// The part of a log that is in one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    window: u64,
    /// The newest ticket that has left the window.
    edge: u64,
    /// How many of the units have left the window.
    skip: usize,
    /// How many units count.
    pub(super) used: u64,
}

impl Long {
    pub(super) fn of_units(units: impl Iterator<Item = u64>) -> Self {
        Self {
            units: units.collect(),
            ..Self::default()
        }
    }

    /// Whether the log has units and no reservation.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.open.is_empty()
    }

    /// The part that counts against a limit.
    pub(super) fn view(&self, limit: &Limit, now: u64) -> View {
        let window = limit.window_us();
        let edge = now.saturating_sub(window);
        let skip = self.position(edge + 1);
        View {
            window,
            edge,
            skip,
            used: (self.units.len() - skip) as u64,
        }
    }

    /// The position of the first unit from this ticket on.
    fn position(&self, ticket: u64) -> usize {
        // Under a single limit, no unit that is still here has left the window.
        match self.units.front() {
            Some(first) if *first < ticket => self.units.partition_point(|unit| *unit < ticket),
            _ => 0,
        }
    }

    /// Notes a reservation that is to be settled.
    pub(super) fn open(&mut self, first: u64, last: u64, is_estimate: bool) {
        let reserved = self.ever_reserved() + if is_estimate { 0 } else { last + 1 - first };
        self.open.push_back(Open {
            first,
            last,
            is_estimate,
            reserved,
        });
    }

    /// Ends the reservation of this kind whose last ticket this is, if it is open.
    pub(super) fn settle(&mut self, last: u64, is_estimate: bool) -> bool {
        let position = self.open.partition_point(|open| open.last < last);
        let is_it = |open: &&Open| open.last == last && open.is_estimate == is_estimate;
        let Some(&Open { first, .. }) = self.open.get(position).filter(is_it) else {
            return false;
        };
        self.open.remove(position);
        if !is_estimate {
            self.open
                .range_mut(position..)
                .for_each(|open| open.reserved -= last + 1 - first);
        }
        true
    }

    /// Whether anything is reserved by `count`.
    #[inline]
    pub(super) fn reserves(&self) -> bool {
        self.ever_reserved() > self.reserved_before
    }

    #[inline]
    fn ever_reserved(&self) -> u64 {
        self.open
            .back()
            .map_or(self.reserved_before, |open| open.reserved)
    }

    /// How many units up to this ticket, of all ever, were reserved by `count`.
    fn reserved_up_to(&self, ticket: u64) -> u64 {
        let next = self.open.partition_point(|open| open.last <= ticket);
        let last = next.checked_sub(1).and_then(|last| self.open.get(last));
        let part = self
            .open
            .get(next)
            .filter(|open| !open.is_estimate && open.first <= ticket);
        last.map_or(self.reserved_before, |open| open.reserved)
            + part.map_or(0, |open| ticket + 1 - open.first)
    }

    /// How many units in the window are reserved by `count`.
    pub(super) fn reserved(&self, view: View) -> u64 {
        self.ever_reserved() - self.reserved_until(view)
    }

    /// How many such units were before the window, or are removed: where the clock has stepped
    /// back, removed units of an open reservation may be in the window again.
    fn reserved_until(&self, view: View) -> u64 {
        let gone = self.units.front().map_or(0, |first| first - 1);
        self.reserved_up_to(view.edge.max(gone))
    }

    /// How long until so many units have left the window that the limit admits the cost; if
    /// `released`, as if nothing were reserved by `count`.
    pub(super) fn wait(
        &self,
        view: View,
        limit: &Limit,
        cost: u64,
        released: bool,
        now: u64,
    ) -> u64 {
        let reserved = if released { self.reserved(view) } else { 0 };
        let excess = (view.used - reserved + cost).saturating_sub(limit.max());
        let Some(before) = excess.checked_sub(1) else {
            return 0;
        };
        let position = if released {
            self.behind_reserved(view, before)
        } else {
            view.skip
                .saturating_add(usize::try_from(before).unwrap_or(usize::MAX))
        };
        let last = self.units.get(position);
        debug_assert!(
            last.is_some() || cost > limit.max(),
            "as many units as are too many count, and will leave"
        );
        last.map_or(0, |last| last + view.window - now)
    }

    /// The position of the first unit in the window that is not reserved by `count` and has so many
    /// such units before it.
    fn behind_reserved(&self, view: View, before: u64) -> usize {
        let reserved = self.reserved_until(view);
        let is_before = |position: usize, unit: &u64| {
            (position + 1 - view.skip) as u64 - (self.reserved_up_to(*unit) - reserved) <= before
        };
        let (mut start, mut end) = (view.skip, self.units.len());
        while start < end {
            let middle = start.midpoint(end);
            match self.units.get(middle) {
                Some(unit) if is_before(middle, unit) => start = middle + 1,
                _ => end = middle,
            }
        }
        start
    }

    /// Removes the units up to ticket `edge`; returns the newest of them, or 0.
    pub(super) fn let_go(&mut self, edge: u64) -> u64 {
        let newest = self
            .units
            .drain(..self.position(edge + 1))
            .next_back()
            .unwrap_or(0);
        if self.units.capacity() > 64 && self.units.len() < self.units.capacity() / 4 {
            self.units.shrink_to(self.units.len() * 2);
        }
        while let Some(open) = self.open.front().filter(|open| open.last <= edge) {
            self.reserved_before = open.reserved;
            self.open.pop_front();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_a_long_log_needs_no_more_is_given_back() {
        let mut log = Long::of_units(1..=10_000);
        assert_eq!(log.let_go(9_990), 9_990);
        assert!(
            log.units.len() == 10 && log.units.capacity() <= 64,
            "{}",
            log.units.capacity()
        );
    }
}

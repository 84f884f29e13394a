//! [`Long`]: the log of a sliding window that has many units, several limits, or reservations to
//! settle. Most keys have none of these, and take less memory without it.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::algorithm::status::LimitStatus;
use crate::rule::Limit;

/// A log with many units, under several limits, or with reservations.
#[derive(Debug, Default)]
pub(super) struct Long {
    /// The tickets of the units, ascending.
    pub(super) units: VecDeque<u64>,
    /// Reservations to settle, in the order of their tickets, which are among `units`.
    open: VecDeque<OpenReservation>,
    /// The number of units that `count` ever reserved before the first reservation in `open`.
    reserved_before: u64,
}

/// A reservation to settle: its tickets are consecutive.
#[derive(Debug, Clone, Copy)]
struct OpenReservation {
    first: u64,
    last: u64,
    /// `true` for an estimate, which is charged; `false` for a reservation by `count`.
    is_estimate: bool,
    /// The number of units that `count` ever reserved up to `last`: the difference of two such
    /// numbers is the number of units between them.
    reserved: u64,
}

/// The part of a log within one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    window: u64,
    /// The newest ticket that has left the window.
    edge: u64,
    /// The number of units that have left the window.
    skip: usize,
    /// The number of units in the window.
    pub(super) used: u64,
}

impl Long {
    pub(super) fn of_units(units: impl Iterator<Item = u64>) -> Self {
        Self {
            units: units.collect(),
            ..Self::default()
        }
    }

    /// `true` if no reservation is to be settled.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.open.is_empty()
    }

    /// The part of a log that has no unit outside `window`.
    #[inline]
    pub(super) fn all(&self, window: u64) -> View {
        View {
            window,
            edge: 0,
            skip: 0,
            used: self.units.len() as u64,
        }
    }

    /// The part of the log that counts against `limit`.
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

    /// The position of the first unit whose ticket is `ticket` or later.
    fn position(&self, ticket: u64) -> usize {
        // Under a single limit, no unit that is still here has left the window.
        match self.units.front() {
            Some(first) if *first < ticket => self.units.partition_point(|unit| *unit < ticket),
            _ => 0,
        }
    }

    /// Adds a reservation to settle.
    pub(super) fn open(&mut self, first: u64, last: u64, is_estimate: bool) {
        let reserved = self.ever_reserved() + if is_estimate { 0 } else { last + 1 - first };
        self.open.push_back(OpenReservation {
            first,
            last,
            is_estimate,
            reserved,
        });
    }

    /// Ends the reservation that has this `last` ticket and kind. `false` if there is none.
    pub(super) fn settle(&mut self, last: u64, is_estimate: bool) -> bool {
        let position = self.open.partition_point(|open| open.last < last);
        let is_it = |open: &&OpenReservation| open.last == last && open.is_estimate == is_estimate;
        let Some(&OpenReservation { first, .. }) = self.open.get(position).filter(is_it) else {
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

    /// `true` if `count` reserves a unit.
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

    /// The number of units that `count` ever reserved up to `ticket`.
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

    /// The number of units in the window that `count` reserves.
    pub(super) fn reserved(&self, view: View) -> u64 {
        self.ever_reserved() - self.reserved_until(view)
    }

    /// The number of units reserved by `count` that have left the window or are removed: where the
    /// clock stepped back, removed units of an open reservation may be in the window again.
    fn reserved_until(&self, view: View) -> u64 {
        let gone = self.units.front().map_or(0, |first| first - 1);
        self.reserved_up_to(view.edge.max(gone))
    }

    /// The status of a limit for a call.
    pub(super) fn status(&self, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let view = self.view(limit, now);
        let status = self.status_of_charges(view, limit, cost, now);
        if !self.reserves() {
            return LimitStatus {
                is_reserved: !self.is_plain(),
                ..status
            };
        }
        let last = last_in_excess(view.used - self.reserved(view), limit, cost)
            .and_then(|before| self.units.get(self.behind_reserved(view, before)));
        let wait = last.map_or(0, |last| last + view.window - now);
        status.or_released(LimitStatus::new(wait, status.remaining, status.reset))
    }

    /// The status of a limit, if nothing is reserved.
    #[allow(
        clippy::inline_always,
        reason = "a call to it would cost half of what it does"
    )]
    #[inline(always)]
    pub(super) fn status_of_charges(
        &self,
        view: View,
        limit: &Limit,
        cost: u64,
        now: u64,
    ) -> LimitStatus {
        let until =
            |unit: Option<&u64>| unit.map_or(0, |unit| (unit + view.window).saturating_sub(now));
        let before = last_in_excess(view.used, limit, cost);
        let last = before.and_then(|before| {
            let before = usize::try_from(before).ok()?;
            self.units.get(view.skip.saturating_add(before))
        });
        debug_assert!(
            last.is_some() || before.is_none() || cost > limit.max(),
            "as many units as are too many count, and will leave"
        );
        let remaining = limit.max().saturating_sub(view.used);
        LimitStatus::new(until(last), remaining, until(self.units.back()))
    }

    /// The position of the first unit in the window that `count` does not reserve and that has
    /// `before` such units before it.
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

    /// Adds units, which are later than all others.
    #[inline]
    pub(super) fn add(&mut self, units: RangeInclusive<u64>) {
        if units.start() == units.end() {
            self.units.push_back(*units.start());
        } else {
            self.units.extend(units);
        }
    }

    /// Removes the units that have left `window`. `ticket` is then past the window of each.
    #[allow(clippy::inline_always, reason = "as that of `status_of_charges`")]
    #[inline(always)]
    pub(super) fn let_go(&mut self, window: u64, now: u64, ticket: &mut u64) {
        let edge = now.saturating_sub(window);
        let has_left = |unit: Option<&u64>| unit.is_some_and(|unit| *unit <= edge);
        if !has_left(self.units.front()) {
            return;
        }
        // Where calls come evenly, each finds one unit that has left.
        let newest = if self.is_plain() && !has_left(self.units.get(1)) {
            self.units.pop_front()
        } else {
            self.let_go_many(edge)
        };
        if let Some(newest) = newest {
            *ticket = (*ticket).max(newest + window - 1);
        }
    }

    /// Removes the units up to ticket `edge`. Returns the newest removed ticket.
    #[cold]
    fn let_go_many(&mut self, edge: u64) -> Option<u64> {
        let newest = self.units.drain(..self.position(edge + 1)).next_back();
        if self.units.capacity() > 64 && self.units.len() < self.units.capacity() / 4 {
            self.units.shrink_to(self.units.len() * 2);
        }
        while let Some(open) = self.open.front().filter(|open| open.last <= edge) {
            self.reserved_before = open.reserved;
            self.open.pop_front();
        }
        newest
    }

    /// Removes the units with tickets `from` to `to`, except those of reservations to settle.
    /// `true` if a unit was removed.
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

    /// Adds units that were [removed](Self::remove).
    pub(super) fn put_back(&mut self, units: RangeInclusive<u64>) {
        let at = self.position(*units.start());
        for (before, unit) in units.enumerate() {
            self.units.insert(at + before, unit);
        }
    }
}

/// The index of the last unit that has to leave before the limit admits a call; `None` if it
/// admits.
#[inline]
fn last_in_excess(used: u64, limit: &Limit, cost: u64) -> Option<u64> {
    (used + cost).saturating_sub(limit.max()).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_that_shortens_frees_its_memory() {
        let mut log = Long::of_units(1..=10_000);
        assert_eq!(log.let_go_many(9_990), Some(9_990));
        assert!(
            log.units.len() == 10 && log.units.capacity() <= 64,
            "{}",
            log.units.capacity()
        );
    }
}

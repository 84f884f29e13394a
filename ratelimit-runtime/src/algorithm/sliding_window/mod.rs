//! The exact sliding window: a log of admissions, each with its time and cost.
//!
//! Each unit of cost has a microsecond of its own, its ticket: the time of its admission, or one
//! more than the newest where that is not past. At any moment `t`, a limit counts the units with
//! tickets in `(t − window, t]` and those to come. A call is admitted if for every limit this sum
//! plus the cost is at most `max`.

mod entry;

use std::collections::VecDeque;

use smallvec::SmallVec;

use self::entry::{Kind, LogEntry, Sums, View};
use super::demand::Demand;
use super::state::{AlgorithmState, Settlement, SettlementOutcome};
use super::status::{LimitStatus, Standing};
use crate::rule::Limit;

#[cfg(feature = "redis")]
pub(crate) const SCRIPT: super::Lua = super::Lua {
    body: include_str!("script.lua"),
    reads: false,
    number: |limit, remaining| (remaining, limit.window_us()),
};

/// How much of an actual cost counts: each unit takes room in a log.
const MOST_ACTUAL: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<LogEntry>,
    /// The sums of all that was before the first entry, and of units of it perhaps.
    before: Sums,
    /// The sums of all, up to the last entry.
    total: Sums,
    /// One per limit, in the order of the limits; none for a single limit, for which all of the log
    /// counts; none after something was taken out, until the next call.
    views: Vec<View>,
    /// The newest ticket. It outlives its entry, so that a ticket of something refunded never names
    /// something else. And all before a unit has left a window, so that where the clock steps back,
    /// nothing is admitted into one window with what has been let go of.
    ticket: u64,
}

impl Log {
    /// Lets go of what has left the windows.
    #[allow(clippy::inline_always, reason = "every call of a sliding window begins with it")]
    #[inline(always)]
    fn advance(&mut self, limits: &[Limit], now: u64) {
        match limits {
            [limit] if self.views.is_empty() => {
                let view = self.whole(limit);
                match self.entries.front() {
                    Some(first) if view.is_late(first, now) => self.advance_whole(view, now),
                    _ => {}
                }
            }
            limits => self.advance_views(limits, now),
        }
    }

    /// The view of a single limit.
    #[inline]
    fn whole(&self, limit: &Limit) -> View {
        View { window: limit.window_us(), skip: 0, before: self.before }
    }

    #[inline]
    fn advance_whole(&mut self, mut view: View, now: u64) {
        self.ticket = self.ticket.max(view.advance(&self.entries, now));
        self.before = view.before;
        self.let_go(view.skip);
    }

    fn advance_views(&mut self, limits: &[Limit], now: u64) {
        let differs = |(view, limit): (&View, &Limit)| view.window != limit.window_us();
        if self.views.len() != limits.len() || self.views.iter().zip(limits).any(differs) {
            self.views = limits.iter().map(|limit| self.whole(limit)).collect();
        }
        for view in &mut self.views {
            if self.entries.get(view.skip).is_some_and(|next| view.is_late(next, now)) {
                self.ticket = self.ticket.max(view.advance(&self.entries, now));
            }
        }
        let gone = self.views.iter().map(|view| view.skip).min().unwrap_or(0);
        if gone > 0 {
            self.views.iter_mut().for_each(|view| view.skip -= gone);
            self.before = self.sums(gone);
            self.let_go(gone);
        }
    }

    /// Removes so many of the oldest entries.
    #[inline]
    fn let_go(&mut self, gone: usize) {
        if gone == 1 {
            self.entries.pop_front();
        } else {
            self.entries.drain(..gone.min(self.entries.len()));
        }
        if self.entries.capacity() > 64 && self.entries.len() < self.entries.capacity() / 4 {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        self.entries.shrink_to(self.entries.len() * 2);
    }

    /// The sums of the first `len` entries, and of all before them.
    #[inline]
    fn sums(&self, len: usize) -> Sums {
        len.checked_sub(1).and_then(|last| self.entries.get(last)).map_or(self.before, |entry| entry.sums)
    }

    /// What counts against a limit.
    fn view(&self, index: usize, limit: &Limit) -> View {
        self.views.get(index).copied().unwrap_or_else(|| self.whole(limit))
    }

    fn views<'a>(&'a self, limits: &'a [Limit]) -> impl Iterator<Item = (usize, &'a Limit, View)> {
        limits.iter().enumerate().map(|(index, limit)| (index, limit, self.view(index, limit)))
    }

    /// What is used of a limit.
    #[inline]
    fn used(&self, view: View) -> Sums {
        self.total.since(view.before)
    }

    /// What a limit says to a call of `cost`.
    #[inline]
    fn status(&self, view: View, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let used = self.used(view).cost;
        let excess = (used + cost).saturating_sub(limit.max());
        let wait = if excess == 0 { 0 } else { self.wait(view, excess, |sums| sums.cost, now) };
        LimitStatus { wait, remaining: limit.max().saturating_sub(used) }
    }

    /// How long until units that weigh `amount` in all have left.
    #[cold]
    fn wait(&self, view: View, amount: u64, weight: fn(Sums) -> u64, now: u64) -> u64 {
        let weight_up_to = |entry: &LogEntry| weight(entry.sums.since(view.before));
        // A call of cost 1 waits for the first; where all calls cost 1, so many entries have to
        // leave.
        let guess = usize::try_from(amount - 1).ok().and_then(|more| self.entries.get(view.skip + more));
        let last = self
            .entries
            .get(view.skip)
            .filter(|first| weight_up_to(first) >= amount)
            .or_else(|| guess.filter(|entry| weight_up_to(entry) == amount && weight(entry.part(1)) == 1))
            .or_else(|| {
                let skipped = weight(view.before.since(self.before));
                let too_few = |entry: &LogEntry| weight(entry.sums.since(self.before)) < skipped + amount;
                self.entries.get(self.entries.partition_point(too_few))
            });
        // Units of it may stay.
        last.map_or(0, |last| last.last - (weight_up_to(last) - amount) + view.window - now)
    }

    #[inline]
    fn push(&mut self, kind: Kind, cost: u64, now: u64) -> u64 {
        let first = now.max(self.ticket + 1);
        self.ticket = first + cost - 1;
        self.total = self.total.and(Sums::of(kind, cost));
        self.entries.push_back(LogEntry { last: self.ticket, sums: self.total, kind });
        first
    }

    /// Takes this out of the sums of an entry and all after it.
    fn lower(&mut self, position: usize, by: Sums) {
        for entry in self.entries.range_mut(position..) {
            entry.sums = entry.sums.since(by);
        }
        self.total = self.total.since(by);
        self.views.clear();
    }

    /// Takes the units from one ticket to another out of an entry, which has them.
    fn take_out(&mut self, position: usize, from: u64, to: u64) {
        let before = self.sums(position);
        let Some(entry) = self.entries.get_mut(position) else { return };
        let (head, tail, taken) = (from - entry.first(before), entry.last - to, entry.part(to + 1 - from));
        let first = LogEntry { last: from - 1, sums: before.and(entry.part(head)), ..*entry };
        match (head, tail) {
            (0, 0) => {
                self.entries.remove(position);
            }
            (0, _) => {}
            (_, 0) => entry.last = from - 1,
            _ => self.entries.insert(position, first),
        }
        self.lower(if head > 0 && tail > 0 { position + 1 } else { position }, taken);
    }

    /// Charges up to twice the capacity of each limit; returns how much was charged.
    fn charge_beyond(&mut self, demand: &Demand<'_>, cost: u64, now: u64) -> u64 {
        self.advance(demand.limits, now);
        let free = self.views(demand.limits);
        let free = free.map(|(_, limit, view)| demand.most_used(limit).saturating_sub(self.used(view).cost));
        let charged = cost.min(free.min().unwrap_or(0));
        if charged > 0 {
            self.push(Kind::Charge, charged, now);
        }
        charged
    }

    /// The last ticket that has left the window.
    fn last_lapsed(&self, view: View) -> u64 {
        let sums = self.sums(view.skip);
        match (self.entries.get(view.skip), view.skip.checked_sub(1).and_then(|last| self.entries.get(last))) {
            (Some(next), _) if view.before != sums => next.first(view.before) - 1,
            (_, Some(last)) => last.last,
            _ => 0,
        }
    }
}

fn longest(limits: &[Limit]) -> u64 {
    limits.iter().map(Limit::window_us).max().unwrap_or(0)
}

/// The ticket of the last unit.
fn last_of(ticket: u64, cost: u64) -> u64 {
    ticket.saturating_add(cost).saturating_sub(1)
}

impl AlgorithmState for Log {
    const KEEPS_TIMES: bool = true;

    #[inline]
    fn standing(&mut self, demand: &Demand<'_>, now: u64) -> Standing {
        self.advance(demand.limits, now);
        match demand.limits {
            [limit] if self.views.is_empty() => {
                Standing { limit: 0, status: self.status(self.whole(limit), limit, demand.cost, now) }
            }
            limits => {
                let mut standing = Standing::of_none();
                for (index, (limit, view)) in limits.iter().zip(&self.views).enumerate() {
                    standing.add(index, self.status(*view, limit, demand.cost, now));
                }
                standing
            }
        }
    }

    fn statuses(&mut self, demand: &Demand<'_>, now: u64) -> SmallVec<[LimitStatus; 1]> {
        self.advance(demand.limits, now);
        self.views(demand.limits).map(|(_, limit, view)| self.status(view, limit, demand.cost, now)).collect()
    }

    #[inline]
    fn reserves(&self, _: &Demand<'_>, _: u64) -> bool {
        self.total.since(self.before).reserved > 0
    }

    fn standing_behind_reservations(&self, demand: &Demand<'_>, now: u64) -> (Standing, bool) {
        let (mut standing, mut only_reserved) = (Standing::of_none(), true);
        for (index, limit, view) in self.views(demand.limits) {
            let excess = (self.used(view).own() + demand.cost).saturating_sub(limit.max());
            let wait = if excess == 0 { 0 } else { self.wait(view, excess, Sums::own, now) };
            only_reserved &= !standing.add_released(index, self.status(view, limit, demand.cost, now), wait);
        }
        (standing, only_reserved)
    }

    #[inline]
    fn reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> u64 {
        match (self.entries.back(), demand.limits.get(limit)) {
            (Some(newest), Some(limit)) => (newest.last + limit.window_us()).saturating_sub(now),
            _ => 0,
        }
    }

    #[inline]
    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        self.push(Kind::Charge, demand.cost, now)
    }

    fn charge_estimate(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        self.push(Kind::Estimate, demand.cost, now)
    }

    fn reserve(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        self.push(Kind::Reserved, demand.cost, now)
    }

    /// By the newest ticket, which may be ahead of the clock.
    #[inline]
    fn life(&self, demand: &Demand<'_>, now: u64) -> u64 {
        (self.ticket + longest(demand.limits)).saturating_sub(now)
    }

    /// Takes out the units that still count, but for those of a reservation that is to be settled.
    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        self.advance(demand.limits, now);
        let from = ticket.max((now + 1).saturating_sub(longest(demand.limits)));
        let (to, mut done) = (last_of(ticket, demand.cost), false);
        let mut position = self.entries.partition_point(|entry| entry.last < from);
        while let Some(entry) = self.entries.get(position).copied() {
            let first = entry.first(self.sums(position));
            if first > to || from > to {
                break;
            }
            let goes_whole = first >= from && entry.last <= to && entry.kind == Kind::Charge;
            if entry.kind == Kind::Charge {
                self.take_out(position, first.max(from), entry.last.min(to));
                done = true;
            }
            position += usize::from(!goes_whole);
        }
        done
    }

    fn settle(&mut self, demand: &Demand<'_>, settlement: &Settlement, now: u64) -> SettlementOutcome {
        self.advance(demand.limits, now);
        let &Settlement { ticket, is_estimate, actual, is_sent_again } = settlement;
        let (last, counted) = (last_of(ticket, demand.cost), actual.min(MOST_ACTUAL));
        if last.saturating_add(longest(demand.limits)) <= now {
            if is_sent_again {
                return SettlementOutcome::default();
            }
            let charged = self.charge_beyond(demand, counted, now);
            return SettlementOutcome { was_open: false, dropped: actual - charged, changed: charged > 0 };
        }
        let kind = if is_estimate { Kind::Estimate } else { Kind::Reserved };
        let position = self.entries.partition_point(|entry| entry.last < last);
        let before = self.sums(position);
        let entry = self.entries.get_mut(position).filter(|entry| entry.last == last && entry.kind == kind);
        let Some(entry) = entry else { return SettlementOutcome::default() };
        let (first, reserved) = (entry.first(before), entry.sums.since(before).reserved);
        entry.kind = Kind::Charge;
        self.lower(position, Sums { cost: 0, reserved });
        // One unit counts for all windows: where they have left one of them, they begin anew in
        // all.
        let has_left = demand.limits.iter().any(|limit| last + limit.window_us() <= now);
        let stay = if has_left { 0 } else { counted.min(demand.cost) };
        if stay < demand.cost {
            self.take_out(position, first.max(ticket + stay), last);
        }
        let charged = self.charge_beyond(demand, counted - stay, now);
        SettlementOutcome { was_open: true, dropped: actual - stay - charged, changed: true }
    }

    /// What counts against the same limits becomes one entry, as old as its newest unit.
    fn copy(&mut self, demand: &Demand<'_>, now: u64) -> Self {
        self.advance(demand.limits, now);
        // The longest window first: what has left the next one is an entry.
        let mut views: SmallVec<[View; 4]> = self.views(demand.limits).map(|(_, _, view)| view).collect();
        views.sort_unstable_by_key(|view| std::cmp::Reverse(view.window));
        let mut copy = Self { ticket: self.ticket, ..Self::default() };
        for (index, view) in views.iter().enumerate() {
            let (left, last) = match views.get(index + 1) {
                Some(next) => (next.before, self.last_lapsed(*next)),
                None => (self.total, self.entries.back().map_or(0, |newest| newest.last)),
            };
            let cost = left.since(view.before).cost;
            if cost > 0 {
                copy.total = copy.total.and(Sums::of(Kind::Charge, cost));
                copy.entries.push_back(LogEntry { last, sums: copy.total, kind: Kind::Charge });
            }
        }
        copy
    }

    /// The tickets go on.
    fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(64);
        self.views.clear();
        (self.before, self.total) = (Sums::default(), Sums::default());
    }
}

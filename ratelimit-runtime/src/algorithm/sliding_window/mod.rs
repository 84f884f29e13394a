//! The exact sliding window: a log of admissions, each with its time and cost.
//!
//! At any moment `t`, a limit counts the entries in `(t − window, t]`. A call is admitted if for
//! every limit this sum plus the cost is at most `max`.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::demand::Demand;
use super::state::{AlgorithmState, Committed};
use super::status::{LimitStatus, Standing};
use crate::rule::Limit;

/// On Redis a log is a sorted set or a ring: `quick.lua` and `full.lua` choose.
#[cfg(feature = "redis")]
pub(crate) const LUA: super::Lua = super::Lua {
    quick: &[include_str!("quick.lua"), include_str!("zset/quick.lua"), include_str!("ring/quick.lua")],
    full: &[
        include_str!("zset/full.lua"),
        include_str!("ring/log.lua"),
        include_str!("ring/room.lua"),
        include_str!("ring/append.lua"),
        include_str!("ring/full.lua"),
        include_str!("full.lua"),
    ],
};

#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    /// The sums of all that was before the first entry.
    before: Sums,
    /// The sums of all, up to the last entry.
    total: Sums,
    /// One per limit, in the order of the limits; none for a single limit, which sees all of the
    /// log.
    views: Vec<View>,
    /// The newest ticket. It outlives its entry, so that a ticket of something refunded never names
    /// something else.
    ticket: u64,
}

/// An admission. What it cost is the difference between its sums and those before it, so that what
/// any two entries have between them is known without a look at the others.
#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    /// Unique in the log and ascending: the time, or one more than the last.
    ticket: u64,
    /// Of all entries up to this one.
    sums: Sums,
}

/// They wrap around, and only their differences count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    cost: u64,
    /// How much of that is reserved: it counts, and may be released.
    reserved: u64,
}

impl Sums {
    fn and(self, other: Self) -> Self {
        Self { cost: self.cost.wrapping_add(other.cost), reserved: self.reserved.wrapping_add(other.reserved) }
    }

    fn since(self, earlier: Self) -> Self {
        Self { cost: self.cost.wrapping_sub(earlier.cost), reserved: self.reserved.wrapping_sub(earlier.reserved) }
    }

    /// What is not reserved.
    fn own(self) -> u64 {
        self.cost.wrapping_sub(self.reserved)
    }
}

/// What one limit sees of the log.
#[derive(Debug, Clone, Copy)]
struct View {
    window: u64,
    /// How many of the oldest entries have left the window.
    skip: usize,
}

impl View {
    #[inline]
    fn is_past(self, entry: &Entry, now: u64) -> bool {
        entry.at + self.window <= now
    }

    /// The view without what has left the window.
    fn advanced(self, entries: &VecDeque<Entry>, now: u64) -> Self {
        let is_past = |at| entries.get(at).is_some_and(|entry| self.is_past(entry, now));
        // Where calls come evenly, each finds one that has left.
        let skip = match (is_past(self.skip), is_past(self.skip + 1)) {
            (true, true) => self.all_past(entries, now),
            (true, false) => self.skip + 1,
            _ => self.skip,
        };
        Self { skip, ..self }
    }

    #[cold]
    fn all_past(self, entries: &VecDeque<Entry>, now: u64) -> usize {
        entries.partition_point(|entry| self.is_past(entry, now))
    }
}

impl Log {
    /// Lets go of what has left the windows.
    #[allow(clippy::inline_always, reason = "every call of a sliding window begins with it")]
    #[inline(always)]
    fn advance(&mut self, limits: &[Limit], now: u64) {
        match limits {
            [limit] if self.views.is_empty() => {
                let view = View { window: limit.window_us(), skip: 0 };
                match self.entries.front() {
                    Some(first) if view.is_past(first, now) => self.advance_past(view, now),
                    _ => {}
                }
            }
            limits => self.advance_views(limits, now),
        }
    }

    /// The first entry has left the window.
    #[inline]
    fn advance_past(&mut self, view: View, now: u64) {
        // Where calls come evenly, it is the only one.
        if self.entries.get(1).is_some_and(|second| view.is_past(second, now)) {
            self.let_go(view.all_past(&self.entries, now));
        } else if let Some(first) = self.entries.pop_front() {
            self.before = first.sums;
            self.shrink_if_sparse();
        }
    }

    fn advance_views(&mut self, limits: &[Limit], now: u64) {
        let differs = |(view, limit): (&View, &Limit)| view.window != limit.window_us();
        if self.views.len() != limits.len() || self.views.iter().zip(limits).any(differs) {
            self.views = limits.iter().map(|limit| View { window: limit.window_us(), skip: 0 }).collect();
        }
        for view in &mut self.views {
            *view = view.advanced(&self.entries, now);
        }
        let gone = self.views.iter().map(|view| view.skip).min().unwrap_or(0);
        for view in &mut self.views {
            view.skip -= gone;
        }
        self.let_go(gone);
    }

    /// Removes so many of the oldest entries.
    fn let_go(&mut self, gone: usize) {
        self.before = self.sums(gone);
        self.entries.drain(..gone.min(self.entries.len()));
        self.shrink_if_sparse();
    }

    #[inline]
    fn shrink_if_sparse(&mut self) {
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

    /// What a limit sees; a single one has no view, and sees all of the log.
    fn view(&self, index: usize, limit: &Limit) -> View {
        View { window: limit.window_us(), skip: self.views.get(index).map_or(0, |view| view.skip) }
    }

    /// What a limit says to a call of `cost`.
    #[inline]
    fn status(&self, view: View, limit: &Limit, cost: u64, now: u64) -> LimitStatus {
        let used = self.total.since(self.sums(view.skip));
        let excess = (used.cost + cost).saturating_sub(limit.max());
        let wait = if excess == 0 { 0 } else { self.wait(view, excess, now) };
        LimitStatus { wait, remaining: limit.max().saturating_sub(used.cost) }
    }

    /// How long a call waits that is `excess` too much for a limit.
    #[cold]
    fn wait(&self, view: View, excess: u64, now: u64) -> u64 {
        self.freed(view, excess, |sums| sums.cost, now).unwrap_or(0)
    }

    /// How long until entries that weigh `amount` in all have left.
    fn freed(&self, view: View, amount: u64, weight: fn(Sums) -> u64, now: u64) -> Option<u64> {
        let start = self.sums(view.skip);
        let is_enough_of = |sums: Sums| weight(sums.since(start)) >= amount;
        let is_enough = |entry: &Entry| is_enough_of(entry.sums);
        // Where all calls cost 1, so many entries have to leave.
        let at = view.skip + usize::try_from(amount).ok()?.saturating_sub(1);
        // A call of cost 1 waits for the first.
        let first = self.entries.get(view.skip)?;
        let last = if is_enough(first) {
            first
        } else if let Some(last) = self.entries.get(at).filter(|last| is_enough(last) && !is_enough_of(self.sums(at))) {
            last
        } else {
            let skipped = weight(start.since(self.before));
            let too_few = |entry: &Entry| weight(entry.sums.since(self.before)) < skipped + amount;
            self.entries.get(self.entries.partition_point(too_few))?
        };
        Some(last.at + view.window - now)
    }

    #[inline]
    fn push(&mut self, weighs: Sums, now: u64) -> u64 {
        self.ticket = now.max(self.ticket + 1);
        self.total = self.total.and(weighs);
        self.entries.push_back(Entry { at: now, ticket: self.ticket, sums: self.total });
        self.ticket
    }

    fn position(&self, ticket: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&ticket, |entry| entry.ticket).ok()
    }

    /// What the entry weighs.
    fn weight(&self, position: usize) -> Sums {
        self.sums(position + 1).since(self.sums(position))
    }

    /// Takes an entry out, which no limit counts from then on.
    fn remove(&mut self, position: usize) {
        self.lower(position, self.weight(position));
        self.entries.remove(position);
        for view in self.views.iter_mut().filter(|view| position < view.skip) {
            view.skip -= 1;
        }
    }

    /// Takes this out of the sums of an entry and all after it.
    fn lower(&mut self, position: usize, by: Sums) {
        for entry in self.entries.range_mut(position..) {
            entry.sums = entry.sums.since(by);
        }
        self.total = self.total.since(by);
    }
}

impl AlgorithmState for Log {
    const KEEPS_TIMES: bool = true;

    #[inline]
    fn standing(&mut self, demand: &Demand<'_>, now: u64) -> Standing {
        self.advance(demand.limits, now);
        match demand.limits {
            [limit] if self.views.is_empty() => {
                let view = View { window: limit.window_us(), skip: 0 };
                Standing { limit: 0, status: self.status(view, limit, demand.cost, now) }
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
        let views = demand
            .limits
            .iter()
            .enumerate()
            .map(|(index, limit)| self.status(self.view(index, limit), limit, demand.cost, now));
        views.collect()
    }

    #[inline]
    fn reserves(&self, _: &Demand<'_>, _: u64) -> bool {
        self.total.since(self.before).reserved > 0
    }

    #[cold]
    fn wait_if_released(&self, demand: &Demand<'_>, now: u64) -> u64 {
        let waits = demand.limits.iter().enumerate().map(|(index, limit)| {
            let view = self.view(index, limit);
            let own = self.total.since(self.sums(view.skip)).own();
            match (own + demand.cost).saturating_sub(limit.max()) {
                0 => 0,
                excess => self.freed(view, excess, Sums::own, now).unwrap_or(0),
            }
        });
        waits.max().unwrap_or(0)
    }

    #[inline]
    fn reset(&self, demand: &Demand<'_>, limit: usize, now: u64) -> u64 {
        match (self.entries.back(), demand.limits.get(limit)) {
            (Some(newest), Some(limit)) => (newest.at + limit.window_us()).saturating_sub(now),
            _ => 0,
        }
    }

    #[inline]
    fn charge(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        self.push(Sums { cost: demand.cost, reserved: 0 }, now)
    }

    fn reserve(&mut self, demand: &Demand<'_>, now: u64) -> u64 {
        self.push(Sums { cost: demand.cost, reserved: demand.cost }, now)
    }

    #[inline]
    fn life(&self, demand: &Demand<'_>, _: u64) -> u64 {
        demand.limits.iter().map(Limit::window_us).max().unwrap_or(0)
    }

    fn refund(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        self.advance(demand.limits, now);
        let Some(position) = self.position(ticket) else { return false };
        self.remove(position);
        true
    }

    fn commit(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        self.advance(demand.limits, now);
        let Some(position) = self.position(ticket) else { return false };
        let reserved = self.weight(position).reserved;
        self.lower(position, Sums { cost: 0, reserved });
        reserved > 0
    }

    fn commit_actual(&mut self, demand: &Demand<'_>, ticket: u64, actual: u64, now: u64) -> Option<Committed> {
        self.advance(demand.limits, now);
        let position = self.position(ticket).filter(|position| self.weight(*position).reserved > 0)?;
        let Sums { cost: estimate, reserved } = self.weight(position);
        let at = self.entries.get(position)?.at;
        let has_left = demand.limits.iter().any(|limit| at + limit.window_us() <= now);
        // One entry counts for all windows: where it has left one of them, it begins anew in all.
        let stays = if has_left { 0 } else { actual.min(estimate) };
        if stays > 0 {
            self.lower(position, Sums { cost: estimate - stays, reserved });
        } else {
            self.remove(position);
        }
        Some(self.charge_beyond(demand, actual - stays, now))
    }

    fn charge_beyond(&mut self, demand: &Demand<'_>, cost: u64, now: u64) -> Committed {
        self.advance(demand.limits, now);
        let free = demand.limits.iter().enumerate().map(|(index, limit)| {
            let skip = self.views.get(index).map_or(0, |view| view.skip);
            demand.most_used(limit).saturating_sub(self.total.since(self.sums(skip)).cost)
        });
        let charged = cost.min(free.min().unwrap_or(0));
        if charged > 0 {
            self.push(Sums { cost: charged, reserved: 0 }, now);
        }
        Committed { dropped: cost - charged, charged_now: charged > 0 }
    }

    fn release(&mut self, demand: &Demand<'_>, ticket: u64, now: u64) -> bool {
        self.refund(demand, ticket, now)
    }

    /// What counts against the same limits becomes one entry, as old as its newest.
    fn copy(&mut self, demand: &Demand<'_>, now: u64) -> (Self, u64) {
        self.advance(demand.limits, now);
        // Where views begin, and where the log ends.
        let mut edges: SmallVec<[usize; 4]> = self.views.iter().map(|view| view.skip).collect();
        if edges.is_empty() {
            edges.push(0);
        }
        edges.push(self.entries.len());
        edges.sort_unstable();
        edges.dedup();
        let mut copy = Self { views: self.views.clone(), ticket: self.ticket, ..Self::default() };
        for edge in edges.windows(2) {
            let &[start, end] = edge else { continue };
            let Some(newest) = end.checked_sub(1).and_then(|last| self.entries.get(last)) else { continue };
            let cost = self.sums(end).since(self.sums(start)).cost;
            copy.total = copy.total.and(Sums { cost, reserved: 0 });
            copy.entries.push_back(Entry { sums: copy.total, ..*newest });
        }
        for view in &mut copy.views {
            view.skip = edges.iter().filter(|skip| **skip < view.skip).count();
        }
        (copy, self.ticket + 1)
    }

    /// The tickets go on.
    fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(64);
        self.views.clear();
        (self.before, self.total) = (Sums::default(), Sums::default());
    }
}

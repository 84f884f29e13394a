//! The exact sliding window: a log of admissions, each with its time and cost.
//!
//! At any moment `t`, a limit counts the entries in `(t − window, t]`. A call is admitted if for every limit this
//! sum plus the cost is at most `max`.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::question::Question;
use super::state::{AlgorithmState, Statuses};
use super::status::LimitStatus;
use crate::rule::Limit;

#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    /// One per limit, in the order of the limits.
    views: SmallVec<[View; 1]>,
    /// The newest ticket. It outlives its entry, so that a ticket of something refunded never names something else.
    ticket: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    cost: u64,
    /// Unique in the log and ascending: the time, or one more than the last.
    ticket: u64,
    /// It counts, and may be released.
    reserved: bool,
}

impl Entry {
    fn reserved_cost(&self) -> u64 {
        if self.reserved { self.cost } else { 0 }
    }
}

/// What one limit sees of the log.
#[derive(Debug, Clone, Copy)]
struct View {
    window: u64,
    /// How many of the oldest entries have left the window.
    skip: usize,
    /// The cost of all others.
    used: u64,
    /// How much of that is reserved.
    reserved: u64,
}

impl View {
    fn remove(&mut self, entry: &Entry) {
        self.used -= entry.cost;
        self.reserved -= entry.reserved_cost();
    }
}

impl Log {
    /// Lets go of what has left the windows.
    fn advance(&mut self, limits: &[Limit], now: u64) {
        if !self.views.iter().map(|view| view.window).eq(limits.iter().map(Limit::window_us)) {
            let used = self.entries.iter().map(|entry| entry.cost).sum();
            let reserved = self.entries.iter().map(Entry::reserved_cost).sum();
            let view = |limit: &Limit| View { window: limit.window_us(), skip: 0, used, reserved };
            self.views = limits.iter().map(view).collect();
        }
        for view in &mut self.views {
            while let Some(entry) = self.entries.get(view.skip).filter(|entry| entry.at + view.window <= now) {
                view.remove(entry);
                view.skip += 1;
            }
        }
        let gone = self.views.iter().map(|view| view.skip).min().unwrap_or(0);
        self.entries.drain(..gone);
        for view in &mut self.views {
            view.skip -= gone;
        }
        if self.entries.capacity() > 64 && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// How long a refused call waits, and whether it is refused without the reservations, too.
    ///
    /// This looks at no more entries than have to leave: where all cost 1, that is the cost of the call.
    fn wait(&self, view: &View, cost: u64, max: u64, now: u64) -> (u64, bool) {
        let excess = (view.used + cost).saturating_sub(max);
        let own_excess = excess.saturating_sub(view.reserved);
        if excess == 0 {
            return (0, false);
        }
        let (mut freed, mut own_freed, mut own_wait) = (0, 0, None);
        for entry in self.entries.iter().skip(view.skip) {
            freed += entry.cost;
            own_freed += entry.cost - entry.reserved_cost();
            let leaves = entry.at + view.window - now;
            if own_wait.is_none() && own_excess > 0 && own_freed >= own_excess {
                own_wait = Some(leaves);
            }
            if freed >= excess {
                if view.reserved == 0 {
                    return (leaves, true);
                }
                let wait = LimitStatus::wait_behind_reservations(Some(leaves), own_wait.unwrap_or(0));
                return (wait, own_excess > 0);
            }
        }
        (0, false)
    }

    fn push(&mut self, cost: u64, now: u64, reserved: bool) -> u64 {
        self.ticket = now.max(self.ticket + 1);
        let entry = Entry { at: now, cost, ticket: self.ticket, reserved };
        self.entries.push_back(entry);
        for view in &mut self.views {
            view.used += cost;
            view.reserved += entry.reserved_cost();
        }
        self.ticket
    }

    fn position(&self, ticket: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&ticket, |entry| entry.ticket).ok()
    }

    fn remove(&mut self, position: usize) -> bool {
        let Some(entry) = self.entries.remove(position) else { return false };
        for view in &mut self.views {
            if position < view.skip {
                view.skip -= 1;
            } else {
                view.remove(&entry);
            }
        }
        true
    }
}

impl AlgorithmState for Log {
    fn status(&mut self, question: &Question<'_>, cost: u64, now: u64) -> Statuses {
        self.advance(question.limits, now);
        let status = |(limit, view): (&Limit, &View)| {
            let (wait, exceeded) = self.wait(view, cost, limit.max(), now);
            LimitStatus {
                wait,
                exceeded,
                remaining: limit.max().saturating_sub(view.used),
                reset: self.entries.back().map_or(0, |newest| (newest.at + view.window).saturating_sub(now)),
            }
        };
        question.limits.iter().zip(&self.views).map(status).collect()
    }

    fn charge(&mut self, question: &Question<'_>, now: u64) -> u64 {
        self.push(question.cost, now, false)
    }

    fn reserve(&mut self, question: &Question<'_>, now: u64) -> u64 {
        self.push(question.cost, now, true)
    }

    fn life(&self, question: &Question<'_>, _: u64) -> u64 {
        question.limits.iter().map(Limit::window_us).max().unwrap_or(0)
    }

    fn refund(&mut self, question: &Question<'_>, ticket: u64, now: u64) -> bool {
        self.advance(question.limits, now);
        self.position(ticket).is_some_and(|position| self.remove(position))
    }

    fn commit(&mut self, question: &Question<'_>, ticket: u64, now: u64) -> bool {
        self.advance(question.limits, now);
        let Some(position) = self.position(ticket) else { return false };
        let Some(entry) = self.entries.get_mut(position) else { return false };
        let reserved = entry.reserved_cost();
        for view in self.views.iter_mut().filter(|view| position >= view.skip) {
            view.reserved -= reserved;
        }
        std::mem::take(&mut entry.reserved)
    }

    fn release(&mut self, question: &Question<'_>, ticket: u64, now: u64) -> bool {
        self.refund(question, ticket, now)
    }

    /// What counts against the same limits becomes one entry, as old as its newest.
    fn copy(&mut self, question: &Question<'_>, now: u64) -> (Self, u64) {
        self.advance(question.limits, now);
        // Where views begin, and the cost from there on.
        let mut edges: SmallVec<[(usize, u64); 4]> = self.views.iter().map(|view| (view.skip, view.used)).collect();
        edges.push((self.entries.len(), 0));
        edges.sort_unstable_by_key(|(skip, _)| *skip);
        edges.dedup_by_key(|(skip, _)| *skip);
        let mut copy = Self { entries: VecDeque::new(), views: self.views.clone(), ticket: self.ticket };
        for edge in edges.windows(2) {
            let &[(_, used), (end, used_after)] = edge else { continue };
            let Some(newest) = end.checked_sub(1).and_then(|last| self.entries.get(last)) else { continue };
            copy.entries.push_back(Entry { cost: used.saturating_sub(used_after), reserved: false, ..*newest });
        }
        for view in &mut copy.views {
            view.skip = edges.iter().filter(|(skip, _)| *skip < view.skip).count();
            view.reserved = 0;
        }
        (copy, self.ticket + 1)
    }
}

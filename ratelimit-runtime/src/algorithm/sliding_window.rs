//! The exact sliding window: a log of admissions, each with its time and cost.
//!
//! At any moment `t`, a limit counts the entries in `(t − window, t]`. A call is admitted if for every limit this
//! sum plus the cost is at most `max`.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{Kept, Standing};
use crate::rule::Limit;

#[derive(Debug, Default)]
pub(super) struct Log {
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
    /// A reservation: it counts, and may be given back.
    held: bool,
}

/// What one limit sees of the log.
#[derive(Debug, Clone, Copy)]
struct View {
    window: u64,
    /// How many of the oldest entries have left the window.
    skip: usize,
    /// The cost of all others.
    used: u64,
}

impl Log {
    /// Lets go of what has left the windows.
    fn advance(&mut self, limits: &[Limit], now: u64) {
        if !self.views.iter().map(|view| view.window).eq(limits.iter().map(Limit::window_us)) {
            let used = self.entries.iter().map(|entry| entry.cost).sum();
            self.views = limits.iter().map(|limit| View { window: limit.window_us(), skip: 0, used }).collect();
        }
        for view in &mut self.views {
            while let Some(entry) = self.entries.get(view.skip).filter(|entry| entry.at + view.window <= now) {
                view.used -= entry.cost;
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

    /// How long until `excess` has left the window: the oldest of the `counted` entries that hold it have to go.
    fn wait(&self, view: &View, excess: u64, now: u64, counted: impl Fn(&Entry) -> bool) -> u64 {
        if excess == 0 {
            return 0;
        }
        let mut freed = 0;
        let last_to_leave = self.entries.iter().skip(view.skip).filter(|entry| counted(entry)).find(|entry| {
            freed += entry.cost;
            freed >= excess
        });
        last_to_leave.map_or(0, |entry| entry.at + view.window - now)
    }

    fn position(&self, ticket: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&ticket, |entry| entry.ticket).ok()
    }
}

impl Kept for Log {
    fn standings(&mut self, limits: &[Limit], cost: u64, now: u64) -> SmallVec<[Standing; 2]> {
        self.advance(limits, now);
        let standing = |(limit, view): (&Limit, &View)| Standing {
            wait: self.wait(view, (view.used + cost).saturating_sub(limit.max()), now, |_| true),
            remaining: limit.max().saturating_sub(view.used),
            reset: self.entries.back().map_or(0, |newest| (newest.at + view.window).saturating_sub(now)),
        };
        limits.iter().zip(&self.views).map(standing).collect()
    }

    fn standings_unheld(&mut self, limits: &[Limit], cost: u64, now: u64) -> SmallVec<[Standing; 2]> {
        let mut standings = self.standings(limits, cost, now);
        for ((standing, limit), view) in standings.iter_mut().zip(limits).zip(&self.views) {
            let held: u64 =
                self.entries.iter().skip(view.skip).filter(|entry| entry.held).map(|entry| entry.cost).sum();
            let excess = (view.used - held + cost).saturating_sub(limit.max());
            standing.wait = self.wait(view, excess, now, |entry| !entry.held);
        }
        standings
    }

    fn charge(&mut self, _: &[Limit], cost: u64, now: u64, held: bool) -> u64 {
        self.ticket = now.max(self.ticket + 1);
        let ticket = self.ticket;
        self.entries.push_back(Entry { at: now, cost, ticket, held });
        for view in &mut self.views {
            view.used += cost;
        }
        ticket
    }

    fn life(&self, limits: &[Limit], _: u64) -> u64 {
        limits.iter().map(Limit::window_us).max().unwrap_or(0)
    }

    fn refund(&mut self, limits: &[Limit], _: u64, ticket: u64, now: u64, _: bool) -> bool {
        self.advance(limits, now);
        let Some((position, entry)) =
            self.position(ticket).and_then(|position| Some((position, self.entries.remove(position)?)))
        else {
            return false;
        };
        for view in &mut self.views {
            if position < view.skip {
                view.skip -= 1;
            } else {
                view.used -= entry.cost;
            }
        }
        true
    }

    fn commit(&mut self, limits: &[Limit], _: u64, ticket: u64, now: u64) -> bool {
        self.advance(limits, now);
        let entry = self.position(ticket).and_then(|position| self.entries.get_mut(position));
        entry.is_some_and(|entry| std::mem::take(&mut entry.held))
    }
}

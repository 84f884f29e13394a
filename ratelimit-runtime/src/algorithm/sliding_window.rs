//! The exact sliding window: a log of admissions, each with its time and cost.
//!
//! At any moment `t`, a limit counts the entries in `(t − window, t]`. A call is admitted if for every limit this
//! sum plus the cost is at most `max`.
//!
//! A clock that steps back is read as standing still at the newest entry, so nothing is admitted twice; the log as a
//! whole then lives for one window from the moment it is noticed.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::rule::Limit;
use crate::store::Verdict;

#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    /// One per limit, in the order of the limits.
    views: SmallVec<[View; 1]>,
    /// When the whole log is void, by the store's own clock.
    expires_at: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    cost: u64,
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
    pub(crate) fn acquire(&mut self, limits: &[Limit], cost: u64, now: u64) -> Verdict {
        let at = self.advance(limits, now);
        let admitted = limits.iter().zip(&self.views).all(|(limit, view)| view.used + cost <= limit.max());
        if !admitted {
            return self.refusal(limits, cost, now);
        }
        self.entries.push_back(Entry { at, cost });
        for view in &mut self.views {
            view.used += cost;
        }
        self.expires_at = now + horizon(limits);
        self.admission(limits, now)
    }

    pub(crate) fn peek(&mut self, limits: &[Limit], cost: u64, now: u64) -> Verdict {
        self.advance(limits, now);
        let admitted = limits.iter().zip(&self.views).all(|(limit, view)| view.used + cost <= limit.max());
        if admitted { self.admission(limits, now) } else { self.refusal(limits, cost, now) }
    }

    /// Whether nothing of the log counts any more.
    pub(crate) fn is_void(&self, now: u64) -> bool {
        now >= self.expires_at
    }

    /// Lets go of what has left the windows; returns the time that an admission would have now.
    fn advance(&mut self, limits: &[Limit], now: u64) -> u64 {
        let horizon = horizon(limits);
        if self.is_void(now) {
            self.entries.clear();
            self.views.clear();
        }
        let at = self.entries.back().map_or(now, |newest| newest.at.max(now));
        if at > now {
            self.expires_at = self.expires_at.min(now + horizon);
        }
        if !self.views.iter().map(|view| view.window).eq(limits.iter().map(Limit::window_us)) {
            let used = self.entries.iter().map(|entry| entry.cost).sum();
            self.views = limits.iter().map(|limit| View { window: limit.window_us(), skip: 0, used }).collect();
        }
        for view in &mut self.views {
            while let Some(entry) = self.entries.get(view.skip).filter(|entry| entry.at + view.window <= at) {
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
        at
    }

    fn admission(&self, limits: &[Limit], now: u64) -> Verdict {
        let left = |(limit, view): (&Limit, &View)| limit.max().saturating_sub(view.used);
        let tightest = limits.iter().zip(&self.views).map(left).enumerate().min_by_key(|&(_, left)| left);
        let (index, remaining) = tightest.unwrap_or_default();
        Verdict::new(true, remaining, 0, self.reset_after(index, now)).by_limit(index)
    }

    fn refusal(&self, limits: &[Limit], cost: u64, now: u64) -> Verdict {
        let waits = limits.iter().zip(&self.views).map(|(limit, view)| {
            let excess = (view.used + cost).saturating_sub(limit.max());
            let mut freed = 0;
            let last_to_leave = self.entries.iter().skip(view.skip).find(|entry| {
                freed += entry.cost;
                freed >= excess
            });
            // Nothing has to leave a limit that has room.
            let wait = last_to_leave.filter(|_| excess > 0).map_or(0, |entry| entry.at + view.window - now);
            let remaining = limit.max().saturating_sub(view.used);
            (wait.min(self.expires_at.saturating_sub(now)), remaining)
        });
        // The first of those that wait longest.
        let mut decisive = (0, 0, 0);
        for (index, (wait, remaining)) in waits.enumerate() {
            if index == 0 || wait > decisive.1 {
                decisive = (index, wait, remaining);
            }
        }
        let (index, wait, remaining) = decisive;
        Verdict::new(false, remaining, wait, self.reset_after(index, now)).by_limit(index)
    }

    fn reset_after(&self, index: usize, now: u64) -> u64 {
        let newest = self.views.get(index).and_then(|view| self.entries.back().map(|entry| entry.at + view.window));
        newest.map_or(0, |end| end.saturating_sub(now).min(self.expires_at.saturating_sub(now)))
    }
}

fn horizon(limits: &[Limit]) -> u64 {
    limits.iter().map(Limit::window_us).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: u64 = 1_000_000_000;
    const MINUTE: u64 = 60_000_000;

    #[test]
    fn a_slot_used_at_t_is_free_at_t_plus_window() {
        let limits = [Limit::per_minute(2)];
        let mut log = Log::default();
        assert!(log.acquire(&limits, 1, START).allowed);
        assert!(log.acquire(&limits, 1, START + 10).allowed);
        let refused = log.acquire(&limits, 1, START + 20);
        assert_eq!(refused, Verdict::new(false, 0, MINUTE - 20, MINUTE - 10));
        assert!(!log.acquire(&limits, 1, START + MINUTE - 1).allowed);
        assert!(log.acquire(&limits, 1, START + MINUTE).allowed);
        assert!(!log.acquire(&limits, 1, START + MINUTE + 9).allowed);
        assert!(log.acquire(&limits, 1, START + MINUTE + 10).allowed);
    }

    #[test]
    fn several_limits_are_charged_all_or_none() {
        let limits = [Limit::per_minute(3), Limit::new(4, Duration::from_secs(3600))];
        let mut log = Log::default();
        for step in 0..3 {
            assert!(log.acquire(&limits, 1, START + step).allowed);
        }
        let refused = log.acquire(&limits, 1, START + 3);
        assert_eq!((refused.limit_index, refused.retry_after_us), (0, MINUTE - 3));
        assert!(log.acquire(&limits, 1, START + MINUTE).allowed);
        let refused = log.acquire(&limits, 1, START + MINUTE + 2);
        assert_eq!((refused.limit_index, refused.retry_after_us), (1, 60 * MINUTE - MINUTE - 2));
    }

    #[test]
    fn a_clock_that_steps_back_admits_no_more_and_keeps_nothing_longer_than_a_window() {
        let limits = [Limit::per_minute(1)];
        let mut log = Log::default();
        assert!(log.acquire(&limits, 1, START + 100 * MINUTE).allowed);
        let refused = log.acquire(&limits, 1, START);
        assert_eq!((refused.allowed, refused.retry_after_us), (false, MINUTE));
        assert!(!log.acquire(&limits, 1, START + MINUTE - 1).allowed);
        assert!(log.acquire(&limits, 1, START + MINUTE).allowed);
    }

    #[test]
    fn a_heavy_call_waits_for_as_many_entries_as_it_needs() {
        let limits = [Limit::per_minute(10)];
        let mut log = Log::default();
        for (step, cost) in [4, 3, 3].into_iter().enumerate() {
            assert!(log.acquire(&limits, cost, START + step as u64).allowed);
        }
        assert_eq!(log.peek(&limits, 1, START + 5).retry_after_us, MINUTE - 5);
        assert_eq!(log.peek(&limits, 5, START + 5).retry_after_us, MINUTE - 4);
        assert_eq!(log.peek(&limits, 10, START + 5).retry_after_us, MINUTE - 3);
    }
}

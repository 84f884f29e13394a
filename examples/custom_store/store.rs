//! A custom store: a small implementation of [`Store`].

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::store::{Answer, Capabilities, Feature, Request, Verdict};
use ratelimit_runtime::{Algorithm, Store};

/// Keeps every admission in a map under one lock, which is the simplest implementation of
/// [`Store`]. A store that has to wait for an answer, such as one over a network, returns
/// `Answer::later(async { … })` instead of `Answer::ready`.
pub(crate) struct LogStore<C> {
    clock: C,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    logs: HashMap<Vec<u8>, Log>,
    sweep_at: usize,
}

/// The admissions of one key, oldest first. Each unit of cost has a ticket, a microsecond of its
/// own, and counts until one window after it. An admission is a range of tickets.
#[derive(Default)]
struct Log {
    admissions: VecDeque<Range<u64>>,
    horizon: u64,
}

impl<C: Clock> LogStore<C> {
    pub(crate) fn new(clock: C) -> Self {
        Self {
            clock,
            keys: Mutex::default(),
        }
    }

    /// The lock makes a decision atomic; the time is read under it, so that it never runs backwards
    /// between two calls.
    fn lock(&self) -> (MutexGuard<'_, Keys>, u64) {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let now = micros(self.clock.now());
        (keys, now)
    }
}

impl<C: Clock> Store for LogStore<C> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let (mut keys, now) = self.lock();
        keys.sweep(now);
        let log = keys.logs.entry(request.key().to_vec()).or_default();
        let mut verdict = log.decide(&request, request.cost(), now);
        if verdict.allowed && request.cost() > 0 {
            let ticket = log.charge(request.cost(), now);
            // Decided again, with a cost of 0, `remaining` is that after the charge.
            verdict = log.decide(&request, 0, now);
            verdict.ticket = ticket;
        }
        Answer::ready(Ok(verdict))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let (mut keys, now) = self.lock();
        let verdict = match keys.logs.get_mut(request.key()) {
            Some(log) => log.decide(&request, request.cost(), now),
            None => Log::default().decide(&request, request.cost(), now),
        };
        Answer::ready(Ok(verdict))
    }

    /// The limiter answers `Misconfigured` to rules that need features not declared here: other
    /// algorithms, blocks, `count`.
    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Algorithm::SlidingWindow, &[Feature::Limits])
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        let (mut keys, now) = self.lock();
        let log = keys.logs.remove(request.key());
        Answer::ready(Ok(log.is_some_and(|mut log| !log.is_void(now))))
    }
}

impl Keys {
    /// Removes expired keys, whose last admission has left its window, whenever the map has
    /// doubled.
    fn sweep(&mut self, now: u64) {
        if self.logs.len() >= self.sweep_at {
            self.logs.retain(|_, log| !log.is_void(now));
            self.sweep_at = (self.logs.len() * 2).max(1024);
        }
    }
}

impl Log {
    /// Removes the admissions that have left the longest window; returns whether none is left.
    fn is_void(&mut self, now: u64) -> bool {
        while self
            .admissions
            .front()
            .is_some_and(|tickets| tickets.end + self.horizon <= now + 1)
        {
            self.admissions.pop_front();
        }
        self.admissions.is_empty()
    }

    /// Charges so many units; returns the ticket of the first. A ticket is later than the newest
    /// one, even if that was charged in this microsecond, or before the clock was set back.
    fn charge(&mut self, cost: u64, now: u64) -> u64 {
        let first = self
            .admissions
            .back()
            .map_or(now, |newest| now.max(newest.end));
        self.admissions.push_back(first..first + cost);
        first
    }

    /// Decides on so much cost by all limits, and charges nothing.
    fn decide(&mut self, request: &Request<'_>, cost: u64, now: u64) -> Verdict {
        self.horizon = micros(request.horizon());
        self.is_void(now);
        let mut decisive = Verdict::admitted();
        decisive.remaining = u64::MAX;
        for (index, limit) in request.limits().iter().enumerate() {
            let window = micros(limit.window());
            // Tickets from this one on count.
            let live_from = (now + 1).saturating_sub(window);
            let live = || {
                self.admissions
                    .iter()
                    .map(|tickets| tickets.start.max(live_from)..tickets.end)
            };
            let live = || live().filter(|tickets| !tickets.is_empty());
            let used: u64 = live().map(|tickets| tickets.end - tickets.start).sum();
            let mut excess = (used + cost).saturating_sub(limit.max());
            let mut wait = 0;
            // The call is admitted once enough of the oldest units have left the window.
            for tickets in live() {
                if excess == 0 {
                    break;
                }
                let leaving = excess.min(tickets.end - tickets.start);
                excess -= leaving;
                wait = tickets.start + leaving - 1 + window - now;
            }
            let reset = live()
                .next_back()
                .map_or(0, |tickets| tickets.end - 1 + window - now);
            let left = limit.max().saturating_sub(used);
            // The limit with the longest wait decides; if none refuses, that with the lowest
            // `remaining`.
            if wait > decisive.retry_after_us
                || (wait == decisive.retry_after_us && left < decisive.remaining)
            {
                decisive.allowed = wait == 0;
                decisive.limit_index = index;
                decisive.remaining = left;
                decisive.retry_after_us = wait;
                decisive.reset_after_us = reset;
            }
        }
        decisive
    }
}

/// In microseconds. Sums with a time that no clock shows do not overflow.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2)
}

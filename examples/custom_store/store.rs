//! A store of one's own: what it takes to keep limits somewhere else.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::store::{Answer, Capabilities, Feature, Request, Verdict};
use ratelimit_runtime::{Algorithm, Store};

/// Keeps every admission in a map under one lock: the contract of [`Store`] in its plainest form. A
/// store that has to wait for its answer, as one over a network does, gives
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

/// The admissions of one key, oldest first, as (microsecond, cost).
#[derive(Default)]
struct Log {
    admissions: VecDeque<(u64, u64)>,
    horizon: u64,
}

impl<C: Clock> LogStore<C> {
    pub(crate) fn new(clock: C) -> Self {
        Self { clock, keys: Mutex::default() }
    }

    /// The lock makes a decision atomic; the time is read under it, so that it never runs backwards
    /// between two calls.
    fn lock(&self) -> (MutexGuard<'_, Keys>, u64) {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let now = u64::try_from(self.clock.now().as_micros()).unwrap_or(u64::MAX / 2);
        (keys, now)
    }
}

impl<C: Clock> Store for LogStore<C> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let (mut keys, now) = self.lock();
        keys.sweep(now);
        let log = keys.logs.entry(request.key().to_vec()).or_default();
        let verdict = log.decide(&request, now);
        if !verdict.allowed || request.cost() == 0 {
            return Answer::ready(Ok(verdict));
        }
        log.admissions.push_back((now, request.cost()));
        // The same question once more, for a cost of nothing, says what is left after the charge.
        Answer::ready(Ok(log.decide(&request.with_cost(0), now)))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        let (mut keys, now) = self.lock();
        let verdict = match keys.logs.get_mut(request.key()) {
            Some(log) => log.decide(&request, now),
            None => Log::default().decide(&request, now),
        };
        Answer::ready(Ok(verdict))
    }

    /// What is not declared here, the limiter refuses: other algorithms, blocks, `count`.
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
    /// Everything expires: whenever the map has doubled, the keys are dropped whose last admission
    /// has left its window.
    fn sweep(&mut self, now: u64) {
        if self.logs.len() >= self.sweep_at {
            self.logs.retain(|_, log| !log.is_void(now));
            self.sweep_at = (self.logs.len() * 2).max(1024);
        }
    }
}

impl Log {
    /// Whether no admission counts any more. A clock that was set back must not make admissions
    /// last longer than a window from now on, so those of the future become those of now.
    fn is_void(&mut self, now: u64) -> bool {
        for (at, _) in &mut self.admissions {
            *at = now.min(*at);
        }
        let horizon = self.horizon;
        self.admissions.retain(|&(at, _)| at + horizon > now);
        self.admissions.is_empty()
    }

    /// All limits are looked at, and nothing is charged.
    fn decide(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        self.horizon = u64::try_from(request.horizon().as_micros()).unwrap_or(u64::MAX / 2);
        self.is_void(now);
        let mut decisive = Verdict::admitted().with_remaining(u64::MAX);
        for (index, limit) in request.limits().iter().enumerate() {
            let live = || self.admissions.iter().filter(|&&(at, _)| at + limit.window_us() > now);
            let used: u64 = live().map(|(_, cost)| cost).sum();
            let excess = (used + request.cost()).saturating_sub(limit.max());
            let mut freed = 0;
            // The call fits when the oldest admissions that together weigh `excess` have left the
            // window.
            let last_to_leave = live().find(|(_, cost)| {
                freed += cost;
                freed >= excess
            });
            let wait = last_to_leave.filter(|_| excess > 0).map_or(0, |&(at, _)| at + limit.window_us() - now);
            let reset = live().next_back().map_or(0, |&(at, _)| at + limit.window_us() - now);
            let left = limit.max().saturating_sub(used);
            // The longest wait decides, and where nobody has to wait, the least that is left.
            if wait > decisive.retry_after_us || (wait == decisive.retry_after_us && left < decisive.remaining) {
                let verdict = if wait == 0 { Verdict::admitted() } else { Verdict::refused() };
                decisive = verdict
                    .with_remaining(left)
                    .with_retry_after(Duration::from_micros(wait))
                    .with_reset_after(Duration::from_micros(reset))
                    .by_limit(index);
            }
        }
        decisive
    }
}

//! Reference models: every algorithm once more, as naively as possible, for stores to be compared
//! with.
//!
//! A model says one thing: how much of the limit is used at a moment, if no other call arrives.
//! That amount only ever falls, so the moment at which a call fits is found by trying, not by a
//! formula.

use crate::{Algorithm, Limit};

/// The state of one key under one limit, kept in the plainest way there is. It is told when
/// something was admitted, and says what a store that is exact must answer. All times are in
/// microseconds; they never step back.
///
/// `max` may differ from call to call, the window may not.
#[derive(Debug, Clone)]
pub struct Reference {
    model: Model,
}

/// One model per algorithm.
#[derive(Debug, Clone)]
enum Model {
    SlidingWindow(Log),
    FixedWindow(Log),
    SlidingCounter(Counters),
    TokenBucket(Tokens),
    LeakyBucket(Arrival),
}

impl Reference {
    /// An unused key of this algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        let model = match algorithm {
            Algorithm::SlidingWindow => Model::SlidingWindow(Log::default()),
            Algorithm::FixedWindow => Model::FixedWindow(Log::default()),
            Algorithm::SlidingCounter => Model::SlidingCounter(Counters::default()),
            Algorithm::TokenBucket => Model::TokenBucket(Tokens::default()),
            Algorithm::LeakyBucket => Model::LeakyBucket(Arrival::default()),
        };
        Self { model }
    }

    /// An unused key of [`Algorithm::SlidingWindow`].
    #[must_use]
    pub fn sliding_window() -> Self {
        Self::new(Algorithm::SlidingWindow)
    }

    /// How long after `now` a request of this cost is first admitted if no other call arrives; 0:
    /// at once. A cost above the limit gives `u64::MAX`.
    #[must_use]
    pub fn wait(&self, now: u64, limit: Limit, cost: u64) -> u64 {
        match self.capacity(limit).checked_sub(cost) {
            Some(free) => self.until(now, limit, free),
            None => u64::MAX,
        }
    }

    /// What is left of the limit at `now`.
    #[must_use]
    pub fn remaining(&self, now: u64, limit: Limit) -> u64 {
        self.capacity(limit).saturating_sub(self.used(now, limit))
    }

    /// What a log counts of an admission of `cost` at `at` from now on: 0 takes it back. The other
    /// algorithms keep no times.
    pub(super) fn lower(&mut self, at: u64, cost: u64, to: u64) {
        if let Model::SlidingWindow(log) = &mut self.model
            && let Some(place) = log.admitted.iter().position(|admitted| *admitted == (at, cost))
        {
            log.admitted.remove(place);
            log.admitted.push((at, to));
        }
    }

    /// Notes that the key was written at `now`, which is when the windows of counters begin.
    pub(super) fn bring_to(&mut self, now: u64, limit: Limit) {
        if let Model::SlidingCounter(counters) = &mut self.model {
            *counters = counters.at(now, limit).or_unused();
        }
    }

    /// How long after `now` the limit is whole again if no other call arrives.
    #[must_use]
    pub fn reset_after(&self, now: u64, limit: Limit) -> u64 {
        self.until(now, limit, 0)
    }

    /// The most that an interval of one window holds, of calls that were not given back: where one
    /// of its ends counts, and where both do.
    #[must_use]
    pub fn bounds(&self, limit: Limit) -> (u64, u64) {
        let (max, capacity) = (limit.max(), self.capacity(limit));
        match self.model {
            Model::SlidingWindow(_) => (max, 2 * max),
            Model::FixedWindow(_) => (2 * max - 1, 2 * max),
            // One call is never more than one.
            Model::SlidingCounter(_) => ((2 * max - 2).max(max), 2 * max - 1),
            Model::TokenBucket(_) | Model::LeakyBucket(_) => (capacity + max - 1, capacity + max),
        }
    }

    /// Notes that `cost` was admitted at `now` under `limit`.
    pub fn charge(&mut self, now: u64, limit: Limit, cost: u64) {
        if cost == 0 {
            return;
        }
        match &mut self.model {
            Model::SlidingWindow(log) | Model::FixedWindow(log) => log.admitted.push((now, cost)),
            Model::SlidingCounter(counters) => {
                *counters = counters.at(now, limit);
                counters.current += cost;
            }
            Model::TokenBucket(tokens) => {
                let cost = u128::from(cost) * u128::from(limit.window_us());
                *tokens = Tokens { missing: tokens.missing(now, limit) + cost, at: now, max: limit.max() };
            }
            Model::LeakyBucket(arrival) => {
                let start = arrival.under(limit).max(u128::from(now) * u128::from(limit.max()));
                let cost = u128::from(cost) * u128::from(limit.window_us());
                *arrival = Arrival { parts: start + cost, max: limit.max() };
            }
        }
    }

    /// What one call may cost at most.
    pub(super) fn capacity(&self, limit: Limit) -> u64 {
        match self.model {
            Model::SlidingWindow(_) | Model::FixedWindow(_) | Model::SlidingCounter(_) => limit.max(),
            Model::TokenBucket(_) | Model::LeakyBucket(_) => limit.capacity(),
        }
    }

    /// What is used of the limit, rounded up.
    pub(super) fn used(&self, now: u64, limit: Limit) -> u64 {
        let window = u128::from(limit.window_us());
        let whole = |parts: u128| u64::try_from(parts.div_ceil(window)).unwrap_or(u64::MAX);
        match &self.model {
            Model::SlidingWindow(log) => {
                let live = log.admitted.iter().filter(|&&(at, _)| now < at + limit.window_us());
                live.map(|&(_, cost)| cost).sum()
            }
            Model::FixedWindow(log) => log.since_the_window_began(now, limit),
            Model::SlidingCounter(counters) => {
                let Counters { start, current, previous } = counters.at(now, limit);
                whole(u128::from(previous) * (window - u128::from(now - start))) + current
            }
            Model::TokenBucket(tokens) => whole(tokens.missing(now, limit)),
            Model::LeakyBucket(arrival) => {
                whole(arrival.under(limit).saturating_sub(u128::from(now) * u128::from(limit.max())))
            }
        }
    }

    /// How long until no more than `free` is used.
    fn until(&self, now: u64, limit: Limit, free: u64) -> u64 {
        // What is used only falls, and is gone within the horizon of the heaviest `max` that was
        // ever charged.
        let (mut early, mut late) = (now, now.saturating_add(1 << 60));
        while early < late {
            let middle = early + (late - early) / 2;
            if self.used(middle, limit) <= free {
                late = middle;
            } else {
                early = middle + 1;
            }
        }
        early - now
    }
}

/// Every admission ever, as (time, cost).
#[derive(Debug, Clone, Default)]
struct Log {
    admitted: Vec<(u64, u64)>,
}

impl Log {
    /// A window begins with the first admission that finds none.
    fn since_the_window_began(&self, now: u64, limit: Limit) -> u64 {
        let (mut start, mut used) = (0, 0);
        for &(at, cost) in &self.admitted {
            if used == 0 || at >= limit.end_of_window(start) {
                (start, used) = (at, 0);
            }
            used += cost;
        }
        if now >= limit.end_of_window(start) { 0 } else { used }
    }
}

/// What was admitted in the window that began at `start`, and in the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    start: u64,
    current: u64,
    previous: u64,
}

impl Counters {
    fn at(self, now: u64, limit: Limit) -> Self {
        let window = limit.window_us();
        if now < self.start + window {
            self
        } else if now < self.start + 2 * window && self.current > 0 {
            Self { start: self.start + window, current: 0, previous: self.current }
        } else {
            Self { start: now, current: 0, previous: 0 }
        }
    }

    /// Where nothing counts, the next charge begins a window.
    fn or_unused(self) -> Self {
        if self.current + self.previous == 0 { Self::default() } else { self }
    }
}

/// How much was missing from a full bucket at a time, in tokens divided by the window.
#[derive(Debug, Clone, Copy, Default)]
struct Tokens {
    missing: u128,
    at: u64,
    max: u64,
}

impl Tokens {
    /// Under another rate, a whole number of tokens was.
    fn missing(self, now: u64, limit: Limit) -> u128 {
        let window = u128::from(limit.window_us());
        let missing = if self.max == limit.max() { self.missing } else { self.missing.div_ceil(window) * window };
        missing.saturating_sub(u128::from(now - self.at) * u128::from(limit.max()))
    }
}

/// When the bucket runs empty, in `max`-ths of a microsecond.
#[derive(Debug, Clone, Copy, Default)]
struct Arrival {
    parts: u128,
    max: u64,
}

impl Arrival {
    /// The same under another rate: of the next whole microsecond.
    fn under(self, limit: Limit) -> u128 {
        if self.max == limit.max() {
            return self.parts;
        }
        self.parts.div_ceil(u128::from(self.max.max(1))) * u128::from(limit.max())
    }
}

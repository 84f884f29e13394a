//! Reference models: every algorithm once more, as naively as possible, for stores to be compared
//! with.
//!
//! A model says one thing: how much of the limit is used at a moment, if no other call arrives.
//! That amount only ever falls, so the moment at which a call fits is found by trying, not by a
//! formula.

use ratelimit_runtime::{Algorithm, Limit};

use crate::bench::micros;

/// The state of one key under one limit, kept in the plainest way there is. It is told when
/// something was admitted, and says what a store that is exact must answer. All times are in
/// microseconds; they never step back.
///
/// `max` may differ from call to call, the window may not.
#[derive(Debug, Clone)]
pub struct Reference {
    model: Model,
}

fn window_us(limit: Limit) -> u64 {
    micros(limit.window())
}

/// One model per algorithm; both buckets are one.
#[derive(Debug, Clone)]
enum Model {
    SlidingWindow(Log),
    FixedWindow(Admissions),
    SlidingCounter(Counters),
    Bucket(Level),
}

impl Reference {
    /// An unused key of this algorithm.
    ///
    /// # Panics
    ///
    /// If there is no model of the algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        let model = match algorithm {
            Algorithm::SlidingWindow => Model::SlidingWindow(Log::default()),
            Algorithm::FixedWindow => Model::FixedWindow(Admissions::default()),
            Algorithm::SlidingCounter => Model::SlidingCounter(Counters::default()),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Model::Bucket(Level::default()),
            other => unimplemented!("a model of {other}"),
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
            // No two units of cost have one microsecond.
            Model::SlidingWindow(_) => (max, max + 1),
            Model::FixedWindow(_) => (2 * max - 1, 2 * max),
            // One call is never more than one.
            Model::SlidingCounter(_) => ((2 * max - 2).max(max), 2 * max - 1),
            Model::Bucket(_) => (capacity + max - 1, capacity + max),
        }
    }

    /// Notes that `cost` was admitted at `now` under `limit`; returns the ticket.
    pub fn charge(&mut self, now: u64, limit: Limit, cost: u64) -> u64 {
        if cost == 0 {
            return 0;
        }
        match &mut self.model {
            Model::SlidingWindow(log) => return log.charge(now, cost),
            Model::FixedWindow(admissions) => admissions.all.push((now, cost)),
            Model::SlidingCounter(counters) => {
                *counters = counters.at(now, limit);
                counters.current += cost;
            }
            Model::Bucket(level) => {
                let charged = u128::from(cost) * u128::from(window_us(limit));
                *level = Level {
                    units: level.left(now, limit) + charged,
                    at: now,
                };
            }
        }
        now
    }

    /// Takes back the last `units` of an admission of `cost` under `ticket`: of a log at any time,
    /// of the others at the moment of the admission.
    pub fn take_back(&mut self, ticket: u64, limit: Limit, cost: u64, units: u64) {
        match &mut self.model {
            Model::SlidingWindow(log) => {
                log.tickets
                    .retain(|unit| !(ticket + cost - units..ticket + cost).contains(unit));
            }
            Model::FixedWindow(admissions) => {
                if let Some((_, cost)) = admissions.all.last_mut() {
                    *cost -= units;
                }
            }
            Model::SlidingCounter(counters) => {
                counters.current -= units;
                *counters = counters.or_unused();
            }
            Model::Bucket(level) => {
                level.units = level
                    .units
                    .saturating_sub(u128::from(units) * u128::from(window_us(limit)));
            }
        }
    }

    /// What one call may cost at most.
    pub(crate) fn capacity(&self, limit: Limit) -> u64 {
        match self.model {
            Model::SlidingWindow(_) | Model::FixedWindow(_) | Model::SlidingCounter(_) => {
                limit.max()
            }
            Model::Bucket(_) => limit.capacity(),
        }
    }

    /// What is used of the limit, rounded up.
    pub(crate) fn used(&self, now: u64, limit: Limit) -> u64 {
        let window = u128::from(window_us(limit));
        let whole = |parts: u128| u64::try_from(parts.div_ceil(window)).unwrap_or(u64::MAX);
        match &self.model {
            Model::SlidingWindow(log) => log
                .tickets
                .iter()
                .filter(|&&ticket| now < ticket + window_us(limit))
                .count() as u64,
            Model::FixedWindow(admissions) => admissions.since_the_window_began(now, limit),
            Model::SlidingCounter(counters) => {
                let Counters {
                    start,
                    current,
                    previous,
                } = counters.at(now, limit);
                whole(u128::from(previous) * (window - u128::from(now - start))) + current
            }
            Model::Bucket(level) => whole(level.left(now, limit)),
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

/// The ticket of every unit of cost: a microsecond of its own, from when it was admitted or, where
/// that is taken, from after the newest.
#[derive(Debug, Clone, Default)]
struct Log {
    tickets: Vec<u64>,
    /// Of all that were ever given.
    newest: u64,
}

impl Log {
    fn charge(&mut self, now: u64, cost: u64) -> u64 {
        let first = now.max(self.newest + 1);
        self.tickets.extend(first..first + cost);
        self.newest = first + cost - 1;
        first
    }
}

/// Every admission ever, as (time, cost).
#[derive(Debug, Clone, Default)]
struct Admissions {
    all: Vec<(u64, u64)>,
}

impl Admissions {
    /// A window begins with the first admission that finds none.
    fn since_the_window_began(&self, now: u64, limit: Limit) -> u64 {
        let (mut start, mut used) = (0, 0);
        for &(at, cost) in &self.all {
            if used == 0 || at >= start + window_us(limit) {
                (start, used) = (at, 0);
            }
            used += cost;
        }
        if now >= start + window_us(limit) {
            0
        } else {
            used
        }
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
        let window = window_us(limit);
        if now < self.start + window {
            self
        } else if now < self.start + 2 * window && self.current > 0 {
            Self {
                start: self.start + window,
                current: 0,
                previous: self.current,
            }
        } else {
            Self {
                start: now,
                current: 0,
                previous: 0,
            }
        }
    }

    /// Where nothing counts, the next charge begins a window.
    fn or_unused(self) -> Self {
        if self.current + self.previous == 0 {
            Self::default()
        } else {
            self
        }
    }
}

/// What was charged to a bucket and has not drained, in tokens × microseconds of the window.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    units: u128,
    at: u64,
}

impl Level {
    /// What is left at `now`: `max` a microsecond drain, whatever the rate was before.
    fn left(self, now: u64, limit: Limit) -> u128 {
        self.units
            .saturating_sub(u128::from(now - self.at) * u128::from(limit.max()))
    }
}

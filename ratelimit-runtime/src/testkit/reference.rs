//! The limits once more, as naively as possible: what stores are compared with.

use crate::Limit;

/// The state of one key under one limit, kept in the plainest way there is. It is told when something was admitted,
/// and says what a store that is exact must answer. All times are in microseconds; they never step back.
#[derive(Debug, Clone)]
pub struct Reference {
    model: Model,
}

/// One model per algorithm.
#[derive(Debug, Clone)]
enum Model {
    SlidingWindow(SlidingWindow),
}

impl Reference {
    /// An unused key of [`Algorithm::SlidingWindow`](crate::Algorithm::SlidingWindow).
    #[must_use]
    pub fn sliding_window() -> Self {
        Self { model: Model::SlidingWindow(SlidingWindow::default()) }
    }

    /// How long after `now` a request of this cost is first admitted if nobody else comes; 0: at once. A cost above
    /// the limit gives `u64::MAX`.
    #[must_use]
    pub fn wait(&self, now: u64, limit: Limit, cost: u64) -> u64 {
        match &self.model {
            Model::SlidingWindow(log) => log.wait(now, limit, cost),
        }
    }

    /// What is left of the limit at `now`.
    #[must_use]
    pub fn remaining(&self, now: u64, limit: Limit) -> u64 {
        match &self.model {
            Model::SlidingWindow(log) => limit.max().saturating_sub(log.used(now, limit)),
        }
    }

    /// How long after `now` the limit is whole again if nobody else comes.
    #[must_use]
    pub fn reset_after(&self, now: u64, limit: Limit) -> u64 {
        match &self.model {
            Model::SlidingWindow(log) => log.reset_after(now, limit),
        }
    }

    /// Notes that `cost` was admitted at `now`.
    pub fn charge(&mut self, now: u64, cost: u64) {
        match &mut self.model {
            Model::SlidingWindow(log) => log.admitted.push((now, cost)),
        }
    }
}

/// Every admission ever, as (time, cost). What was admitted at `t` counts while `now < t + window`.
#[derive(Debug, Clone, Default)]
struct SlidingWindow {
    admitted: Vec<(u64, u64)>,
}

impl SlidingWindow {
    fn used(&self, now: u64, limit: Limit) -> u64 {
        self.admitted.iter().filter(|&&(at, _)| now < at + limit.window_us()).map(|&(_, cost)| cost).sum()
    }

    fn wait(&self, now: u64, limit: Limit, cost: u64) -> u64 {
        // Something can change only when an admission runs out.
        let ends = self.admitted.iter().map(|&(at, _)| at + limit.window_us()).filter(|&end| end > now);
        let mut moments: Vec<u64> = std::iter::once(now).chain(ends).collect();
        moments.sort_unstable();
        let fits = |&moment: &u64| self.used(moment, limit).saturating_add(cost) <= limit.max();
        moments.into_iter().find(fits).map_or(u64::MAX, |moment| moment - now)
    }

    fn reset_after(&self, now: u64, limit: Limit) -> u64 {
        let last_end = self.admitted.iter().map(|&(at, _)| at + limit.window_us()).max();
        last_end.map_or(0, |end| end.saturating_sub(now))
    }
}

//! [`Block`]: how long a key is refused, by hand or by a rule.

/// A block by hand or by a rule. Neither a clock that steps back nor a call shortens or extends it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Block {
    until: u64,
    duration: u64,
}

impl Block {
    pub(super) fn new(duration: u64, now: u64) -> Self {
        Self { until: now.saturating_add(duration), duration }
    }

    /// What is left of it. Where the clock has stepped back to before it began, that is all of it.
    #[inline]
    pub(super) fn left(self, now: u64) -> u64 {
        if self.until <= now { 0 } else { (self.until - now).min(self.duration) }
    }

    /// The same block, which ends when it does, or as long after `now` as it was given.
    #[inline]
    pub(super) fn at(self, now: u64) -> Self {
        // That of a key which was never blocked ends at 0.
        if self.until <= now { self } else { Self { until: self.until.min(now.saturating_add(self.duration)), ..self } }
    }
}

//! [`LimitStatus`]: what one limit says to one call; [`Standing`]: what all of them say together.

/// What one limit says to one call. An open reservation counts as if it were committed now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitStatus {
    /// How long until the limit would admit the call; 0 if it does now.
    pub(crate) wait: u64,
    /// What is left before the call.
    pub(crate) remaining: u64,
}

/// What several limits say to one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// The limit that decides: the first of those that wait longest; if none has to wait, the first
    /// of those with the least left.
    pub(crate) limit: usize,
    /// What that limit says.
    pub(crate) status: LimitStatus,
}

impl Standing {
    /// What none of them says: the first one decides, so far.
    pub(crate) const fn of_none() -> Self {
        Self { limit: 0, status: LimitStatus { wait: 0, remaining: u64::MAX } }
    }

    /// Adds what the next limit says.
    #[inline]
    pub(crate) fn add(&mut self, limit: usize, status: LimitStatus) {
        if (!status.wait, status.remaining) < (!self.status.wait, self.status.remaining) {
            (self.limit, self.status) = (limit, status);
        }
    }
}

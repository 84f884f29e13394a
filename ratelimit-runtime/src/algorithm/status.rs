//! [`LimitStatus`]: what one limit says to one call; [`Standing`]: what all of them say together.

/// How long a call waits at most that only open reservations keep out: they may be released at any
/// moment. 50 ms.
pub(crate) const RESERVED_WAIT: u64 = 50_000;

/// What one limit says to one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitStatus {
    /// How long until the limit would admit the call; 0 if it does now.
    pub(crate) wait: u64,
    /// Whether the limit refuses the call even without the open reservations.
    pub(crate) exceeded: bool,
    /// What is left before the call.
    pub(crate) remaining: u64,
}

impl LimitStatus {
    /// The wait of a call where open reservations count: `with` them, and `without`. `None` means
    /// that the call does not fit before some of them end.
    pub(crate) fn wait_behind_reservations(with: Option<u64>, without: u64) -> u64 {
        with.unwrap_or(u64::MAX).min(without.max(RESERVED_WAIT))
    }
}

/// What several limits say to one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// The limit that decides: the first of those that wait longest; if none has to wait, the first
    /// of those with the least left.
    pub(crate) limit: usize,
    /// What that limit says.
    pub(crate) status: LimitStatus,
    /// Whether any limit refuses the call even without the open reservations.
    pub(crate) exceeded: bool,
}

impl Standing {
    /// What none of them says: the first one decides, so far.
    pub(crate) const fn of_none() -> Self {
        let status = LimitStatus { wait: 0, exceeded: false, remaining: u64::MAX };
        Self { limit: 0, status, exceeded: false }
    }

    /// Adds what the next limit says.
    #[inline]
    pub(crate) fn add(&mut self, limit: usize, status: LimitStatus) {
        self.exceeded |= status.exceeded;
        if (!status.wait, status.remaining) < (!self.status.wait, self.status.remaining) {
            (self.limit, self.status) = (limit, status);
        }
    }
}

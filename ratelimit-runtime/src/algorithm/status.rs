//! [`LimitStatus`]: how one limit stands for one call; [`Standing`]: how all of them do together.

/// How long a call that only open reservations refuse is told to wait, in microseconds: 50 ms. Most
/// reservations by `count` are given back.
pub(crate) const RESERVED_WAIT: u64 = 50_000;

/// How one limit stands for one call. An open reservation counts as if it were committed now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitStatus {
    /// How long until the limit would admit the call, in microseconds; 0 if it does now.
    pub(crate) wait: u64,
    /// The cost that is left before the call.
    pub(crate) remaining: u64,
}

/// How several limits stand for one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// The limit that decides: the first of those that wait longest; if none has to wait, the first
    /// of those with the least left.
    pub(crate) limit: usize,
    /// The status of that limit.
    pub(crate) status: LimitStatus,
}

impl Standing {
    /// The standing of no limit: the first one added decides.
    pub(crate) const fn of_none() -> Self {
        Self {
            limit: 0,
            status: LimitStatus {
                wait: 0,
                remaining: u64::MAX,
            },
        }
    }

    /// Adds the status of the next limit for a call that waits as if all reservations were
    /// released. Says whether the limit refuses then.
    pub(crate) fn add_released(
        &mut self,
        limit: usize,
        status: LimitStatus,
        released_wait: u64,
    ) -> bool {
        let wait = match (status.wait, released_wait) {
            (0, _) => 0,
            (_, 0) => RESERVED_WAIT,
            (_, wait) => wait,
        };
        self.add(limit, LimitStatus { wait, ..status });
        status.wait > 0 && released_wait > 0
    }

    /// Adds the status of the next limit.
    #[inline]
    pub(crate) fn add(&mut self, limit: usize, status: LimitStatus) {
        if (!status.wait, status.remaining) < (!self.status.wait, self.status.remaining) {
            (self.limit, self.status) = (limit, status);
        }
    }
}

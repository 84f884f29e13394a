//! [`LimitStatus`]: where one limit stands for one call. [`Standing`]: where several limits stand.

/// The wait after a refusal that only open reservations cause, in microseconds: 50 ms. Most
/// reservations by `count` are given back.
pub(crate) const RESERVED_WAIT: u64 = 50_000;

/// Where one limit stands for one call. An open reservation counts as if it were committed now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitStatus {
    /// The microseconds until the limit would admit the call; 0 if it admits now.
    pub(crate) wait: u64,
    /// The cost left before the call.
    pub(crate) remaining: u64,
}

/// Where several limits stand together for one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// The index of the limit that decides: the first with the longest wait; if no limit has to
    /// wait, the first with the least left.
    pub(crate) limit: usize,
    /// The status of that limit.
    pub(crate) status: LimitStatus,
}

impl Standing {
    /// The standing of no limits: the first one added decides.
    pub(crate) const fn of_none() -> Self {
        Self {
            limit: 0,
            status: LimitStatus {
                wait: 0,
                remaining: u64::MAX,
            },
        }
    }

    /// Adds the status of the next limit, with the wait it would have if all reservations were
    /// released. `true` if the limit refuses even then.
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

//! The standing of limits for a call, in the same terms for all algorithms: [`LimitStatus`] of one
//! limit, [`Standing`] of several, by the limit that decides.

/// The wait after a refusal that only open reservations cause, in microseconds: 50 ms. Most
/// reservations by `count` are released.
pub(crate) const RESERVED_WAIT: u64 = 50_000;

/// The standing of one limit for one call. An open reservation counts as if it were committed now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitStatus {
    /// The microseconds until the limit would admit the call if all reservations were released, or
    /// [`RESERVED_WAIT`] if it would then admit at once; 0 if it admits now.
    pub(crate) wait: u64,
    /// The cost left before the call.
    pub(crate) remaining: u64,
    /// The microseconds until the limit is whole.
    pub(crate) reset: u64,
    /// `true` if the limit refuses, also if all reservations were released.
    pub(crate) is_exceeded: bool,
    /// `true` if a part of the limit is reserved by `count` or, in a log, also by an estimate.
    pub(crate) is_reserved: bool,
}

impl LimitStatus {
    /// The status of a limit of which nothing is reserved.
    #[inline]
    pub(crate) const fn new(wait: u64, remaining: u64, reset: u64) -> Self {
        Self {
            wait,
            remaining,
            reset,
            is_exceeded: wait > 0,
            is_reserved: false,
        }
    }

    /// The status of a limit of which a part is reserved, and which has the status `released` if
    /// that is released.
    pub(crate) fn or_released(self, released: Self) -> Self {
        let wait = match (self.wait, released.wait) {
            (0, _) => 0,
            (_, 0) => RESERVED_WAIT,
            (_, wait) => wait,
        };
        Self {
            wait,
            is_exceeded: released.is_exceeded,
            is_reserved: true,
            ..self
        }
    }
}

/// The standing of several limits for one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// The index of the limit that decides: the first with the longest wait; if no limit has to
    /// wait, the first with the least left.
    pub(crate) limit: usize,
    /// The status of the deciding limit.
    pub(crate) status: LimitStatus,
    /// `true` if one of the limits [is exceeded](LimitStatus::is_exceeded).
    pub(crate) is_exceeded: bool,
}

impl Standing {
    /// The standing of one limit.
    #[inline]
    pub(crate) fn of_one(status: LimitStatus) -> Self {
        Self {
            limit: 0,
            status,
            is_exceeded: status.is_exceeded,
        }
    }

    /// The standing of no limits: the first one added decides.
    pub(crate) fn of_none() -> Self {
        Self::of_one(LimitStatus::new(0, u64::MAX, 0))
    }

    /// Adds the status of the next limit.
    pub(crate) fn add(&mut self, limit: usize, status: LimitStatus) {
        self.is_exceeded |= status.is_exceeded;
        if (!status.wait, status.remaining) < (!self.status.wait, self.status.remaining) {
            (self.limit, self.status) = (limit, status);
        }
    }
}

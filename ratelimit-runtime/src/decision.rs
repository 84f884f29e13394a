//! [`Decision`]: the whole answer to one check.

use std::time::Duration;

use crate::rule::Name;

/// The wait after a refusal that does not end by waiting.
pub(crate) const NEVER_US: u64 = u64::MAX;

/// The answer to one check: whether the call may go on, and where its limit stands.
///
/// With several limits, the numbers are those of the limit that decided: the one with the longest
/// wait, or, when the call was admitted, the one with the least left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub(crate) rule: Name,
    pub(crate) limit: u64,
    pub(crate) window_us: u64,
    pub(crate) remaining: u64,
    /// [`NEVER_US`] if the refusal does not end by waiting.
    pub(crate) retry_after_us: u64,
    pub(crate) reset_after_us: u64,
    /// The ticket by which the `source` knows the charge; 0 if nothing was charged.
    pub(crate) ticket: u64,
    pub(crate) limit_index: u8,
    pub(crate) source: Source,
    pub(crate) status: Status,
    pub(crate) measure: Measure,
}

/// The meaning of the number that a decision reports as its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The `max` of a limit.
    Max,
    /// The `max` of a calendar quota, whose periods differ in length.
    Calendar,
    /// The burst of a bucket.
    Burst,
    /// How many calls may be in flight.
    InFlight,
}

/// Whether a decision admits the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Allowed,
    /// The limits refuse it.
    Exceeded,
    /// A block refuses it, which outlasts the limits.
    Blocked,
}

/// The charge of a decision, and where it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// The store, under this ticket.
    Store(u64),
    /// The fallback memory of this process, under this ticket.
    Fallback(u64),
}

/// The source of a [`Decision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store itself.
    Store,
    /// This process, without asking the store: its deny cache knows that the store would refuse,
    /// the limit is 0, or the call would have waited, and found no room to wait or no turn before
    /// its time was over.
    DenyCache,
    /// The fallback: the memory of this process, because the store could not answer.
    Fallback,
    /// No store: it could not answer, and the rule lets calls through unchecked meanwhile.
    Nobody,
}

impl Decision {
    /// Whether the limit admits the call. A rule in shadow mode lets a call run although this is
    /// `false`.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.status == Status::Allowed
    }

    /// The name of the rule that decided.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.rule.as_str()
    }

    /// Whether the in-flight limit decided: how many calls there may be at a time, whatever time
    /// they take. Such a decision has no [`window`](Self::window), and no time is known after which
    /// its refusal ends.
    #[must_use]
    pub fn is_in_flight_limit(&self) -> bool {
        self.measure == Measure::InFlight
    }

    /// The cost that the deciding limit admits at most while unused: its `max`, or the burst of a
    /// bucket.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The window of the deciding limit.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Which of the rule's limits decided, counted from 0 in written order; the in-flight limit
    /// comes after all others.
    #[must_use]
    pub fn limit_index(&self) -> usize {
        usize::from(self.limit_index)
    }

    /// Cost units left in the deciding limit after this call. Exact or too low, never too high.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Time from now until this same call would be admitted, if no other call arrives. Microsecond
    /// resolution, rounded up. `None` of an admission, and of a refusal that no waiting ends.
    ///
    /// It is a lower bound where the [deny cache](Source::DenyCache) repeats the refusal of a call
    /// of another cost, or of one rule of a stack. Where only open reservations refuse, it assumes
    /// that they are released, and is at most 100 ms.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let ends = !self.is_allowed() && self.retry_after_us != NEVER_US;
        ends.then(|| Duration::from_micros(self.retry_after_us))
    }

    /// The same refusal when `elapsed` has passed.
    pub(crate) fn aged(self, elapsed: Duration) -> Self {
        let elapsed = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let retry_after_us = match self.retry_after_us {
            NEVER_US => NEVER_US,
            retry_after => retry_after.saturating_sub(elapsed),
        };
        Self {
            retry_after_us,
            reset_after_us: self.reset_after_us.saturating_sub(elapsed),
            ..self
        }
    }

    /// Time from now until the limit is unused, if no other call arrives. Microsecond resolution,
    /// rounded up.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }

    /// Whether a block refused, which outlasts the limit itself.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.status == Status::Blocked
    }

    /// The source of the decision.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether the store could not answer, so that the fallback decided, or no store did. Under
    /// `allow` the decision knows the limit, but not how much of it is left; under `local` its
    /// numbers are those of this process.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        match self.source {
            Source::Store | Source::DenyCache => false,
            Source::Fallback | Source::Nobody => true,
        }
    }

    pub(crate) fn charge(&self) -> Option<Receipt> {
        match (self.ticket, self.source) {
            (0, _) | (_, Source::DenyCache | Source::Nobody) => None,
            (ticket, Source::Store) => Some(Receipt::Store(ticket)),
            (ticket, Source::Fallback) => Some(Receipt::Fallback(ticket)),
        }
    }

    /// A refusal by a limit of 0, which nothing ends but a change of the limit.
    pub(crate) fn endless(rule: Name, window_us: u64) -> Self {
        Self {
            status: Status::Exceeded,
            retry_after_us: NEVER_US,
            source: Source::DenyCache,
            ..Self::unchecked(rule, 0, window_us, Measure::Max)
        }
    }

    /// A call that is let through without a check.
    pub(crate) fn unchecked(rule: Name, limit: u64, window_us: u64, measure: Measure) -> Self {
        Self {
            rule,
            limit,
            window_us,
            remaining: 0,
            retry_after_us: 0,
            reset_after_us: 0,
            ticket: 0,
            limit_index: 0,
            source: Source::Nobody,
            status: Status::Allowed,
            measure,
        }
    }
}

/// Whole seconds, rounded up: a call made then is not too early.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

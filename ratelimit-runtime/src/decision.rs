//! [`Decision`]: the whole answer to one check, small and `Copy`, so that log, metrics, header
//! fields and the caller all read the same one.

use std::time::Duration;

use crate::rule::Name;

/// The wait, in microseconds, of a refusal that no waiting ends.
pub(crate) const NEVER_US: u64 = u64::MAX;

/// The answer to one check: whether the call may go on, and where its limit stands.
///
/// With several limits, the numbers are those of the limit that decided: the one with the longest
/// wait or, if the call was admitted, the one with the least left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub(crate) rule: Name,
    pub(crate) limit: u64,
    pub(crate) window_us: u64,
    pub(crate) remaining: u64,
    /// In microseconds; [`NEVER_US`] if no waiting ends the refusal.
    pub(crate) retry_after_us: u64,
    pub(crate) reset_after_us: u64,
    /// The charge's ticket where it is [kept](Self::charge); 0 if nothing was charged.
    pub(crate) ticket: u64,
    /// A hash of the algorithm, windows and name under which the charge was made.
    pub(crate) terms_hash: u32,
    pub(crate) limit_index: u8,
    pub(crate) source: Source,
    pub(crate) status: Status,
    pub(crate) measure: Measure,
}

/// The kind of number that a decision reports as its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The `max` of a limit.
    Max,
    /// The `max` of a calendar quota, whose periods differ in length.
    Calendar,
    /// The burst of a bucket.
    Burst,
    /// The number of calls that may be in flight.
    InFlight,
}

/// The outcome of a decision: whether it admits the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Allowed,
    /// The store has charged the limits, which admit the call, and gave no answer on its permit:
    /// the `source` decided that.
    PermitUnknown,
    /// The limits refuse the call.
    Exceeded,
    /// A block, which outlasts the limits, refuses the call.
    Blocked,
}

/// The charge of a decision, and where it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// In the store, under this ticket.
    Store(u64),
    /// In the fallback memory of this process, under this ticket.
    Fallback(u64),
}

/// The place where a [`Decision`] was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// In the store.
    Store,
    /// In this process, without asking the store: its deny cache knows that the store would refuse,
    /// the key was blocked here during an outage that is over, its own calls in flight hold all
    /// permits, the limit is 0, or the call would have waited, but found no room or no turn in
    /// time.
    DenyCache,
    /// In this process, from units taken ahead: see
    /// [`Rule::with_prefetch`](crate::Rule::with_prefetch).
    Grant,
    /// In the fallback, the memory of this process, because the store could not answer.
    Fallback,
    /// Nowhere: the store could not answer and the rule admits calls unchecked meanwhile, or the
    /// check of a rule in shadow mode failed.
    Nobody,
}

impl Decision {
    /// `true` if the limit admits the call. In shadow mode a call runs even if this is `false`.
    #[must_use]
    #[inline]
    pub fn is_allowed(&self) -> bool {
        matches!(self.status, Status::Allowed | Status::PermitUnknown)
    }

    /// The name of the rule that decided, as logs and metrics show it.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.rule.as_str()
    }

    /// `true` if the in-flight limit decided, which bounds the calls that run at a time, however
    /// long each takes. Such a decision has no [`window`](Self::window), and it is not known when
    /// its refusal ends.
    #[must_use]
    pub fn is_in_flight_limit(&self) -> bool {
        self.measure == Measure::InFlight
    }

    /// The largest cost that the deciding limit admits while unused: `max`, or the burst of a
    /// bucket.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The window of the deciding limit; zero of the in-flight limit.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// The index of the rule's limit that decided, from 0 in written order; the in-flight limit
    /// comes after all others.
    #[must_use]
    pub fn limit_index(&self) -> usize {
        usize::from(self.limit_index)
    }

    /// Cost left in the deciding limit after this call: exact, or too low.
    ///
    /// With `prefetch` it is the cost that the store had left before this process took units ahead,
    /// less the units spent here. It is up to a lease old, so it may also be too high.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Time from now until a call of this cost would be admitted, if no other call arrives, in
    /// microseconds rounded up. `None` if the call was admitted, or no waiting ends the refusal.
    ///
    /// It is a lower bound if the [deny cache](Source::DenyCache) repeats the refusal of a call
    /// with another cost, or of one rule of a stack. If only open reservations refuse, it assumes
    /// that they are released, and is at most 100 ms. With `prefetch` it may be too late: units
    /// taken ahead count as used, and those that are not spent are given back when the lease ends.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let ends = !self.is_allowed() && self.retry_after_us != NEVER_US;
        ends.then(|| Duration::from_micros(self.retry_after_us))
    }

    /// The refusal once `elapsed` has passed.
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

    /// Time from now until the limit is unused if no other call arrives, in microseconds rounded
    /// up.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }

    /// `true` if a block, which outlasts the limit itself, refused.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.status == Status::Blocked
    }

    /// `true` if this is closer to a refusal than `other`.
    #[cfg(feature = "http")]
    pub(crate) fn is_stricter_than(&self, other: &Self) -> bool {
        let rank = |decision: &Self| (decision.is_allowed(), decision.remaining);
        rank(self) < rank(other)
    }

    /// The place where the decision was made: the store, or this process without it.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// `true` if the store could not answer, so that `on_unavailable` chose the answer or only the
    /// permit, or the check of a rule in shadow mode failed. Under `local` the numbers are those of
    /// this process; otherwise the limit is known, and the cost left in it is not. Beside a permit
    /// they may be the store's.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        match self.source {
            Source::Store | Source::DenyCache | Source::Grant => false,
            Source::Fallback | Source::Nobody => true,
        }
    }

    /// The admission by limits of a call whose permit is decided by `source`.
    pub(crate) fn permitted_by(self, source: Source) -> Self {
        let permitted = Self { source, ..self };
        if self.is_degraded() || !permitted.is_degraded() {
            return self;
        }
        Self {
            status: Status::PermitUnknown,
            ..permitted
        }
    }

    pub(crate) fn charge(&self) -> Option<Receipt> {
        match (self.ticket, self.source) {
            (ticket @ 1.., _) if self.status == Status::PermitUnknown => {
                Some(Receipt::Store(ticket))
            }
            (0, _) | (_, Source::DenyCache | Source::Nobody) => None,
            (ticket, Source::Store | Source::Grant) => Some(Receipt::Store(ticket)),
            (ticket, Source::Fallback) => Some(Receipt::Fallback(ticket)),
        }
    }

    /// A refusal by a limit of 0, which only a change of the limit ends.
    pub(crate) fn endless(rule: Name, window_us: u64) -> Self {
        Self {
            status: Status::Exceeded,
            retry_after_us: NEVER_US,
            source: Source::DenyCache,
            ..Self::unchecked(rule, 0, window_us, Measure::Max)
        }
    }

    /// An admission without a check.
    pub(crate) fn unchecked(rule: Name, limit: u64, window_us: u64, measure: Measure) -> Self {
        Self {
            rule,
            limit,
            window_us,
            remaining: 0,
            retry_after_us: 0,
            reset_after_us: 0,
            ticket: 0,
            terms_hash: 0,
            limit_index: 0,
            source: Source::Nobody,
            status: Status::Allowed,
            measure,
        }
    }
}

/// `wait` in whole seconds, rounded up, so that a call made then is not too early.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

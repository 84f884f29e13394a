//! [`Terms`]: the settings that a rule and a policy may both have, with one answer to which of them
//! is in force, and the mistake if they do not go together.

use std::fmt;
use std::time::Duration;

use super::algorithm::Algorithm;
use super::block::BlockDuration;
use super::calendar::Zone;
use super::limit::{Limit, MAX_LIMITS};
use super::on_unavailable::OnUnavailable;
use super::policy::overrides::Override;
use super::prefetch;

/// The settings of a rule, or of a policy. A policy's replace the rule's, except for those that are
/// `None`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    algorithm: Algorithm,
    /// The limits. Unused places hold the limit of [`NONE`](Self::NONE).
    limits: [Limit; MAX_LIMITS],
    /// The number of limits given; a policy that is not checked may have more than places.
    pub(super) len: usize,
    /// [`most`](Self::most), updated whenever the limits change.
    most: u64,
    pub(crate) cost: u64,
    pub(crate) block: BlockDuration,
    /// The time for which a refused call waits for room. `None`, here and below, is the default.
    pub(crate) wait: Option<Duration>,
    /// The lease of units taken ahead, in microseconds; 0 takes none ahead.
    pub(crate) prefetch_us: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_unavailable: Option<OnUnavailable>,
    pub(crate) shadow: Option<bool>,
    /// The most calls of a key in flight at a time; `None` for any number.
    pub(crate) concurrent: Option<u64>,
    /// The time for which permits outlive their process.
    pub(crate) lease: Option<Duration>,
    /// The time zone of a rule's calendar quotas that have none of their own.
    pub(crate) zone: Option<&'static str>,
}

#[allow(
    clippy::indexing_slicing,
    reason = "there are never more limits than places; `get` is not const"
)]
impl Terms {
    /// No limit, and no setting.
    pub(crate) const NONE: Self = Self {
        algorithm: Algorithm::SlidingWindow,
        limits: [Limit::per_second(Limit::MAX_COUNT); MAX_LIMITS],
        len: 0,
        most: u64::MAX,
        cost: 1,
        block: BlockDuration::NONE,
        wait: None,
        prefetch_us: None,
        timeout: None,
        on_unavailable: None,
        shadow: None,
        concurrent: None,
        lease: None,
        zone: None,
    };

    pub(crate) const MIN_LEASE: Duration = Duration::from_secs(5);
    const MAX_LEASE: Duration = Duration::from_secs(3600);
    pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);

    /// `true` if permits may have this lease.
    pub(super) const fn is_lease(lease: Duration) -> bool {
        lease.as_nanos() >= Self::MIN_LEASE.as_nanos()
            && lease.as_nanos() <= Self::MAX_LEASE.as_nanos()
    }

    /// The terms with one more limit.
    pub(super) const fn and(mut self, limit: Limit) -> Self {
        if self.len < MAX_LIMITS {
            self.limits[self.len] = limit;
        }
        self.len += 1;
        self.worked_out()
    }

    pub(super) const fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self.worked_out()
    }

    /// The terms with units taken ahead for `lease`, rounded up to a microsecond. A lease that is
    /// far too long stays too long.
    pub(super) const fn with_prefetch(mut self, lease: Duration) -> Self {
        let micros = lease.as_nanos().div_ceil(1_000);
        #[allow(clippy::cast_possible_truncation, reason = "it is compared before")]
        let fits = micros as u32;
        self.prefetch_us = Some(if micros > u32::MAX as u128 {
            u32::MAX
        } else {
            fits
        });
        self
    }

    /// The terms with another `max` for the first limit.
    pub(crate) const fn with_max(mut self, max: u64) -> Self {
        self.limits[0] = self.limits[0].with_max(max);
        self.worked_out()
    }

    /// The terms of a rule with a policy's settings in place of its own.
    pub(crate) fn with_policy(&self, policy: &Self) -> Self {
        Self {
            cost: self.cost,
            wait: policy.wait.or(self.wait),
            prefetch_us: policy.prefetch_us.or(self.prefetch_us),
            timeout: policy.timeout.or(self.timeout),
            on_unavailable: policy.on_unavailable.or(self.on_unavailable),
            concurrent: policy.concurrent.or(self.concurrent),
            shadow: policy.shadow.or(self.shadow),
            lease: policy.lease.or(self.lease),
            zone: self.zone,
            ..*policy
        }
    }

    /// The terms with the numbers that a policy has for a single key.
    pub(crate) fn with_override(mut self, values: &Override) -> Self {
        values.apply(&mut self.limits[..self.len]);
        self.worked_out()
    }

    /// The terms with this time zone applied to their calendar quotas.
    ///
    /// # Errors
    ///
    /// If there is no such zone.
    pub(crate) fn in_zone(mut self, zone: Option<&str>) -> Result<Self, String> {
        if let Some(zone) = zone.map(Zone::named).transpose()? {
            self.limits = self.limits.map(|limit| limit.in_zone(zone));
        }
        Ok(self)
    }

    /// `true` if they differ at most in values of a call: cost, shadow mode and the first `max`.
    pub(crate) fn binds_as(&self, other: &Self) -> bool {
        let Self { cost, shadow, .. } = *other;
        let alike = self.with_max(other.limits[0].max());
        *other
            == Self {
                cost,
                shadow,
                ..alike
            }
    }

    /// The time for which a refused call waits for room; zero if it does not wait.
    #[inline]
    pub(crate) fn wait(&self) -> Duration {
        self.wait.unwrap_or_default()
    }

    /// The lease of units taken ahead; zero takes none ahead.
    pub(crate) fn prefetch(&self) -> Duration {
        Duration::from_micros(self.prefetch_us.unwrap_or_default().into())
    }

    /// The time for which permits outlive their process.
    pub(crate) fn lease(&self) -> Duration {
        self.lease.unwrap_or(Self::DEFAULT_LEASE)
    }

    /// The mistake in settings that do not go together, if there is one. `has_zone`: whether a time
    /// zone is set.
    pub(crate) fn mistake(&self, has_zone: bool) -> Option<String> {
        let (algorithm, limits) = (self.algorithm, self.limits());
        let by_calendar = limits
            .iter()
            .find_map(|limit| Some((limit, limit.calendar_unit()?)));
        let blocks = self.block != BlockDuration::NONE;
        let fault = |message: &str| Some(message.to_owned());
        match by_calendar {
            Some((limit, unit)) if algorithm != Algorithm::FixedWindow => Some(format!(
                "a calendar quota, `{limit}`, is kept by `fixed_window` alone, not by \
                 `{algorithm}`: set the algorithm `fixed_window`, or write a length of time, such \
                 as `{}/{}`",
                limit.max(),
                unit.span(),
            )),
            None if has_zone => fault(
                "`zone` says where a calendar day begins: write a limit such as `500/day`, in code \
                 `Limit::calendar(500, CalendarUnit::Day)`, or leave it out",
            ),
            _ if !algorithm.has_burst() && limits.iter().any(Limit::has_burst) => {
                Some(algorithm.lacks_burst())
            }
            _ if blocks && !self.wait().is_zero() => {
                fault("a call either waits or is blocked: leave `wait` out, or `block`")
            }
            _ if blocks && limits.is_empty() => {
                fault("no limit could block a key: leave the block out, or set a limit as well")
            }
            _ => prefetch::mistake(self.prefetch(), limits, self.block),
        }
    }

    /// A setting that needs limits, if a rule without limits has one.
    pub(crate) fn set_in_vain(&self) -> Option<&'static str> {
        if !self.limits().is_empty() {
            None
        } else if self.algorithm != Algorithm::default() {
            Some("with_algorithm")
        } else if self.cost != 1 {
            Some("with_cost")
        } else {
            (self.limits[0].max() != Limit::MAX_COUNT).then_some("with_max")
        }
    }

    #[inline]
    pub(crate) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    #[inline]
    pub(crate) const fn limits(&self) -> &[Limit] {
        match self.limits.split_at_checked(self.len) {
            Some((limits, _)) => limits,
            None => &self.limits,
        }
    }

    /// The highest cost for which a store may be asked; 0 if there is a limit of 0.
    #[inline]
    pub(crate) const fn most(&self) -> u64 {
        self.most
    }

    /// The smallest capacity of the limits, which refusals report as the limit.
    pub(crate) fn capacity(&self) -> u64 {
        let capacities = self.limits().iter();
        let capacities = capacities.map(|limit| self.algorithm.capacity(limit));
        capacities.min().unwrap_or(0)
    }

    const fn worked_out(mut self) -> Self {
        let (mut most, mut at) = (u64::MAX, 0);
        while at < self.limits().len() {
            let of_limit = self.algorithm.most_at_once(&self.limits[at]);
            if of_limit < most {
                most = of_limit;
            }
            at += 1;
        }
        self.most = most;
        self
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("algorithm", &self.algorithm)
            .field("limits", &self.limits())
            .finish_non_exhaustive()
    }
}

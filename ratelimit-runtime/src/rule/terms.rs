//! [`Terms`]: the settings of a rule that hold for every call.

use std::time::Duration;

use super::algorithm::Algorithm;
use super::block::BlockDuration;
use super::calendar::Zone;
use super::limit::{Limit, MAX_LIMITS};
use super::on_unavailable::OnUnavailable;
use super::policy::Policy;
use super::policy::overrides::Override;
use super::prefetch;

/// The limits of a rule, and how its checks behave.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    algorithm: Algorithm,
    limits: [Limit; MAX_LIMITS],
    len: usize,
    /// [`most`](Self::most), updated whenever the limits change.
    most: u64,
    pub(crate) cost: u64,
    pub(crate) block: BlockDuration,
    /// How long a refused call waits for room.
    pub(crate) wait: Duration,
    /// The lease of units taken ahead, in microseconds, as each check has it; 0 takes none ahead.
    pub(crate) prefetch_us: u32,
    /// `None` for the limiter's timeout.
    pub(crate) timeout: Option<Duration>,
    /// `None` for the limiter's setting.
    pub(crate) on_unavailable: Option<OnUnavailable>,
    pub(crate) shadow: bool,
    /// The time zone of calendar quotas that have none of their own.
    pub(super) zone: Option<&'static str>,
}

#[allow(
    clippy::indexing_slicing,
    reason = "there are never more limits than places; `get` is not const"
)]
impl Terms {
    pub(super) const fn new(limit: Limit) -> Self {
        let terms = Self {
            algorithm: Algorithm::SlidingWindow,
            limits: [limit; MAX_LIMITS],
            len: 1,
            most: 0,
            cost: 1,
            block: BlockDuration::NONE,
            wait: Duration::ZERO,
            prefetch_us: 0,
            timeout: None,
            on_unavailable: None,
            shadow: false,
            zone: None,
        };
        terms.worked_out()
    }

    /// The terms of a rule that limits only calls in flight.
    pub(super) const fn without_limits() -> Self {
        let mut terms = Self::new(Limit::per_second(Limit::MAX_COUNT));
        terms.len = 0;
        terms.worked_out()
    }

    /// The terms with one more limit.
    pub(super) const fn and(mut self, limit: Limit) -> Self {
        assert!(self.len < MAX_LIMITS, "a rule has at most 8 limits");
        self.limits[self.len] = limit;
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
        self.prefetch_us = if micros > u32::MAX as u128 {
            u32::MAX
        } else {
            fits
        };
        self
    }

    /// The terms with another `max` for the first limit.
    pub(crate) const fn with_max(mut self, max: u64) -> Self {
        self.limits[0] = self.limits[0].with_max(max);
        self.worked_out()
    }

    /// The terms with a policy's settings in place of the rule's.
    pub(crate) fn with_policy(mut self, policy: &Policy) -> Self {
        self.algorithm = policy.algorithm;
        self.block = policy.block;
        self.shadow = policy.shadow.unwrap_or(self.shadow);
        self.wait = policy.wait.unwrap_or(self.wait);
        if let Some(lease) = policy.prefetch {
            self = self.with_prefetch(lease);
        }
        self.timeout = policy.timeout.or(self.timeout);
        self.on_unavailable = policy.on_unavailable.or(self.on_unavailable);
        self.len = 0;
        for (limit, of_policy) in self.limits.iter_mut().zip(&policy.limits) {
            *limit = *of_policy;
            self.len += 1;
        }
        self.worked_out()
    }

    /// The terms with the numbers that a policy has for a single key.
    pub(crate) fn with_override(mut self, values: &Override) -> Self {
        values.apply(&mut self.limits[..self.len]);
        self.worked_out()
    }

    /// The terms with their time zone applied to their calendar quotas.
    ///
    /// # Errors
    ///
    /// If there is no such zone.
    pub(crate) fn in_its_zone(mut self) -> Result<Self, String> {
        if let Some(zone) = self.zone {
            let zone = Zone::named(zone)?;
            for limit in &mut self.limits[..self.len] {
                *limit = limit.in_zone(zone);
            }
        }
        Ok(self)
    }

    /// `true` if they differ at most in values of a call: cost, shadow mode and the first `max`.
    pub(crate) fn binds_as(&self, other: &Self) -> bool {
        let settings = |terms: &Self| {
            let Self {
                algorithm,
                block,
                wait,
                prefetch_us,
                timeout,
                on_unavailable,
                zone,
                ..
            } = *terms;
            (
                (algorithm, block, zone),
                (wait, prefetch_us, timeout, on_unavailable),
            )
        };
        let max = other.limits().first().map_or(0, Limit::max);
        settings(self) == settings(other) && self.with_max(max).limits() == other.limits()
    }

    /// The lease of units taken ahead; zero takes none ahead.
    pub(crate) const fn prefetch(&self) -> Duration {
        Duration::from_micros(self.prefetch_us as u64)
    }

    /// `true` if a refusal blocks the key, so that a call would wait in vain.
    pub(crate) fn waits_in_vain(&self) -> bool {
        !self.wait.is_zero() && self.block != BlockDuration::NONE
    }

    /// The mistake in taking units ahead beside the limits and the block, if there is one.
    pub(crate) fn prefetch_mistake(&self) -> Option<String> {
        prefetch::mistake(self.prefetch(), self.limits(), self.block)
    }

    /// The setting of limits that a rule without limits has nevertheless, if there is one.
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

    /// `true` if nothing sets the block, because the rule has no limits.
    pub(crate) fn blocks_never(&self) -> bool {
        self.limits().is_empty() && self.block != BlockDuration::NONE
    }

    /// `true` if one of the limits has a burst that the algorithm does not have.
    pub(crate) fn is_burst_misplaced(&self) -> bool {
        !self.algorithm.has_burst() && self.limits().iter().any(Limit::has_burst)
    }

    /// `true` if the rule sets a time zone.
    #[inline]
    pub(crate) const fn has_zone(&self) -> bool {
        self.zone.is_some()
    }

    /// `true` if one of the limits is a calendar quota.
    pub(crate) fn has_calendar(&self) -> bool {
        self.limits()
            .iter()
            .any(|limit| limit.calendar_unit().is_some())
    }

    /// `true` if there is a calendar quota under an algorithm that does not keep it.
    pub(crate) fn is_calendar_misplaced(&self) -> bool {
        self.algorithm != Algorithm::FixedWindow && self.has_calendar()
    }

    #[inline]
    pub(crate) const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    #[inline]
    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits[..self.len]
    }

    /// The highest cost for which a store may be asked. It is 0 if no cost may: there is a limit of
    /// 0, or a calendar quota under an algorithm that does not keep it.
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
        self.most = u64::MAX;
        let mut at = 0;
        while at < self.len {
            let limit = &self.limits[at];
            let is_kept =
                limit.calendar_unit().is_none() || matches!(self.algorithm, Algorithm::FixedWindow);
            let most = if is_kept {
                self.algorithm.most_at_once(limit)
            } else {
                0
            };
            if most < self.most {
                self.most = most;
            }
            at += 1;
        }
        self
    }
}

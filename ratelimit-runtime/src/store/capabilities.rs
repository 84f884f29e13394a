//! [`Capabilities`]: the algorithms and features that a store declares.

use super::request::Request;
use crate::error::StoreError;
use crate::rule::Algorithm;

/// A feature that a store may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Several limits on one key.
    Limits,
    /// Refunds: [`Store::refund`](super::Store::refund). Of the rules of a stack, at most one may
    /// be on a store that has neither this nor [`Reserve`](Self::Reserve), unless one call of the
    /// store decides them all.
    Refund,
    /// Reservations: [`Request::is_reservation`] and [`Store::settle`](super::Store::settle).
    Reserve,
    /// Costs that are known afterwards: [`Request::is_estimate`], and
    /// [`Store::settle`](super::Store::settle) by another cost. It needs
    /// [`Reserve`](Self::Reserve).
    ActualCost,
    /// Blocks: [`Request::block`], [`Store::block`](super::Store::block) and
    /// [`Store::unblock`](super::Store::unblock).
    Block,
    /// Blocks that grow: [`Request::longest_block`]. It needs [`Block`](Self::Block).
    GrowingBlock,
    /// A list of the keys of a rule: [`Store::keys`](super::Store::keys).
    Keys,
    /// Limits of calls in flight, alone or beside limits by this algorithm. Only stores of this
    /// crate keep them.
    Concurrent,
    /// Calendar quotas: [`Limit::calendar`](crate::Limit), under
    /// [`Algorithm::FixedWindow`](crate::Algorithm::FixedWindow) alone.
    Calendar,
}

impl Feature {
    const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// The argument by which a rule asks for it.
    fn asked_for_by(self) -> &'static str {
        match self {
            Self::Limits => "several limits on one key",
            Self::Refund => "refunds, which stacked rules need as well",
            Self::Reserve => "reservations (`count`)",
            Self::ActualCost => "costs that are known afterwards (`actual_cost`)",
            Self::Block => "blocks (`block`)",
            Self::GrowingBlock => "blocks that grow (`block` of a range)",
            Self::Keys => "lists of keys",
            Self::Concurrent => "limits of calls in flight (`concurrent`)",
            Self::Calendar => "calendar quotas (`500/day`)",
        }
    }
}

/// The algorithms that a store has, and its features under each.
///
/// A limiter refuses a rule that needs anything else, as `Misconfigured`, before the store is
/// asked. So no part of a rule is dropped in silence, and existing stores do not have a feature
/// that a later version adds.
///
/// ```
/// use ratelimit_runtime::Algorithm;
/// use ratelimit_runtime::store::{Capabilities, Feature};
///
/// const LOGS: Capabilities = Capabilities::none().with(Algorithm::SlidingWindow, &[Feature::Limits, Feature::Refund]);
/// assert!(LOGS.supports_feature(Algorithm::SlidingWindow, Feature::Refund));
/// assert!(!LOGS.supports_feature(Algorithm::SlidingWindow, Feature::Block));
/// assert!(!LOGS.supports_algorithm(Algorithm::TokenBucket));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// A bit for each feature, by algorithm; `None` if the store does not keep the algorithm.
    by_algorithm: [Option<u16>; Algorithm::ALL.len()],
}

/// Sliding windows of one limit, and nothing else, which every store has.
impl Default for Capabilities {
    fn default() -> Self {
        Self::none().with(Algorithm::SlidingWindow, &[])
    }
}

#[allow(
    clippy::indexing_slicing,
    reason = "there is an entry for each algorithm; `get` is not const"
)]
impl Capabilities {
    /// The capabilities of a store that has no algorithm, and so no feature.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            by_algorithm: [None; Algorithm::ALL.len()],
        }
    }

    /// Every feature under every algorithm that can have it.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            by_algorithm: [Some(u16::MAX); Algorithm::ALL.len()],
        }
    }

    /// Adds this algorithm, and these features under it. Calendar quotas are possible under
    /// [`Algorithm::FixedWindow`] alone.
    #[must_use]
    pub const fn with(mut self, algorithm: Algorithm, features: &[Feature]) -> Self {
        let mut bits = match self.by_algorithm[algorithm as usize] {
            Some(bits) => bits,
            None => 0,
        };
        let mut at = 0;
        while at < features.len() {
            bits |= features[at].bit();
            at += 1;
        }
        self.by_algorithm[algorithm as usize] = Some(bits);
        self
    }

    /// Adds this algorithm, and every feature that it can have.
    #[cfg(feature = "redis")]
    pub(crate) fn with_all(mut self, algorithm: Algorithm) -> Self {
        self.by_algorithm[algorithm as usize] = Some(u16::MAX);
        self
    }

    /// `true` if the store keeps limits by this algorithm.
    #[must_use]
    pub const fn supports_algorithm(&self, algorithm: Algorithm) -> bool {
        self.by_algorithm[algorithm as usize].is_some()
    }

    /// `true` if the store has the feature under this algorithm.
    #[must_use]
    pub const fn supports_feature(&self, algorithm: Algorithm, feature: Feature) -> bool {
        let can_be =
            !matches!(feature, Feature::Calendar) || matches!(algorithm, Algorithm::FixedWindow);
        can_be
            && matches!(self.by_algorithm[algorithm as usize], Some(bits) if bits & feature.bit() != 0)
    }

    /// `Ok` if the store has the algorithm of a request and, by its limits, block and reservation,
    /// its features.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`](super::StoreErrorKind::Unsupported), with what is missing.
    pub fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let algorithm = request.algorithm();
        if !self.supports_algorithm(algorithm) {
            return Err(StoreError::unsupported(format!(
                "the store does not keep limits by `{algorithm}`"
            )));
        }
        let blocks = request.block.first_us() > 0;
        let needs = [
            (request.limits().len() > 1, Feature::Limits),
            (request.is_reservation(), Feature::Reserve),
            (request.is_estimate(), Feature::ActualCost),
            (blocks, Feature::Block),
            (
                blocks && request.block.longest_us() > 0,
                Feature::GrowingBlock,
            ),
            (request.has_calendar(), Feature::Calendar),
        ];
        let mut needed = needs.into_iter().filter(|(is_needed, _)| *is_needed);
        needed.try_for_each(|(_, feature)| self.require(algorithm, feature))
    }

    /// [`supports_feature`](Self::supports_feature), or the error that says that it does not.
    pub(crate) fn require(&self, algorithm: Algorithm, feature: Feature) -> Result<(), StoreError> {
        if self.supports_feature(algorithm, feature) {
            return Ok(());
        }
        let feature = feature.asked_for_by();
        Err(StoreError::unsupported(format!(
            "under `{algorithm}`, the store does not offer {feature}"
        )))
    }
}

//! [`Capabilities`]: what a store can do, as it says itself.

use super::request::{Request, Reserves};
use crate::error::StoreError;
use crate::rule::Algorithm;

/// Something that a store may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Several limits on one key.
    Limits,
    /// [`Store::refund`](super::Store::refund).
    Refund,
    /// Reservations: [`Request::reserving`] and [`Store::settle`](super::Store::settle).
    Reserve,
    /// Costs that are known afterwards: [`Request::reserving_estimate`], and
    /// [`Store::settle`](super::Store::settle) by another cost. It takes
    /// [`Reserve`](Self::Reserve).
    ActualCost,
    /// Blocks: [`Request::with_block`], [`Store::block`](super::Store::block) and
    /// [`Store::unblock`](super::Store::unblock).
    Block,
    /// Blocks that grow: [`Request::with_growing_block`]. It takes [`Block`](Self::Block).
    GrowingBlock,
    /// A list of the keys of a rule: [`Store::keys`](super::Store::keys).
    Keys,
    /// Limits of calls in flight, alone or beside limits by this algorithm, as stores of this crate
    /// have them.
    Concurrent,
    /// Calendar quotas: [`Limit::calendar`](crate::Limit), under
    /// [`Algorithm::FixedWindow`](crate::Algorithm::FixedWindow) alone.
    Calendar,
}

impl Feature {
    /// All of them.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Limits,
        Self::Refund,
        Self::Reserve,
        Self::ActualCost,
        Self::Block,
        Self::GrowingBlock,
        Self::Keys,
        Self::Concurrent,
        Self::Calendar,
    ];

    const fn bit(self) -> u16 {
        1 << self as u8
    }

    /// What a rule writes to ask for it.
    fn asked_for_by(self) -> &'static str {
        match self {
            Self::Limits => "several limits on one key",
            Self::Refund => "refunds",
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

/// What a store can do: its algorithms, and the features it has under each.
///
/// A limiter refuses what is not declared, as `Misconfigured`, before the store is asked. So
/// nothing that a rule says is dropped in silence, and a feature that a later version adds is one
/// that existing stores do not have.
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
    /// Per algorithm: a bit for each feature, and [`KEPT`] for the algorithm itself.
    by_algorithm: [u16; Algorithm::ALL.len()],
}

const KEPT: u16 = 1 << 15;

/// Sliding windows of one limit, and nothing else: what every store does.
impl Default for Capabilities {
    fn default() -> Self {
        Self::none().with(Algorithm::SlidingWindow, &[])
    }
}

#[allow(clippy::indexing_slicing, reason = "there is an entry for each algorithm; `get` is not const")]
impl Capabilities {
    /// Nothing at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { by_algorithm: [0; Algorithm::ALL.len()] }
    }

    /// Every feature under every algorithm that can have it.
    #[must_use]
    pub const fn all() -> Self {
        let mut all = Self::none();
        let mut at = 0;
        while at < Algorithm::ALL.len() {
            all = all.with(Algorithm::ALL[at], Feature::ALL);
            at += 1;
        }
        all
    }

    /// The same with this algorithm, and these features under it. There are no calendar quotas but
    /// under [`Algorithm::FixedWindow`].
    #[must_use]
    pub const fn with(mut self, algorithm: Algorithm, features: &[Feature]) -> Self {
        let bits = &mut self.by_algorithm[algorithm as usize];
        *bits |= KEPT;
        let mut at = 0;
        while at < features.len() {
            *bits |= features[at].bit();
            at += 1;
        }
        if !matches!(algorithm, Algorithm::FixedWindow) {
            *bits &= !Feature::Calendar.bit();
        }
        self
    }

    /// The same without this feature under this algorithm.
    #[must_use]
    pub const fn without(mut self, algorithm: Algorithm, feature: Feature) -> Self {
        self.by_algorithm[algorithm as usize] &= !feature.bit();
        self
    }

    /// Whether the store keeps limits by this algorithm.
    #[must_use]
    pub const fn supports_algorithm(&self, algorithm: Algorithm) -> bool {
        self.by_algorithm[algorithm as usize] & KEPT != 0
    }

    /// Whether the store has the feature under this algorithm.
    #[must_use]
    pub const fn supports_feature(&self, algorithm: Algorithm, feature: Feature) -> bool {
        self.by_algorithm[algorithm as usize] & feature.bit() != 0
    }

    /// Whether the store has the algorithm of a request and, by its limits, block and reservation,
    /// its features.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`](super::StoreErrorKind::Unsupported), with what is missing.
    #[inline]
    pub fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        let missing = self.missing(request);
        if missing == 0 { Ok(()) } else { Err(unsupported(request.algorithm(), missing)) }
    }

    /// The bits that the request needs and this has not.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "one entry of it is looked at")]
    #[inline]
    fn missing(&self, request: &Request<'_>) -> u16 {
        let mut needed = KEPT | (request.reserves() as u16 * Feature::Reserve.bit());
        if request.limits().len() > 1 {
            needed |= Feature::Limits.bit();
        }
        if request.block_us() > 0 {
            needed |= Feature::Block.bit();
            if request.block_duration().longest_us() > 0 {
                needed |= Feature::GrowingBlock.bit();
            }
        }
        if request.has_calendar() {
            needed |= Feature::Calendar.bit();
        }
        needed & !self.by_algorithm[request.algorithm() as usize]
    }

    /// [`supports_feature`](Self::supports_feature), or the error that says that it does not.
    pub(crate) fn require(self, algorithm: Algorithm, feature: Feature) -> Result<(), StoreError> {
        if self.supports_feature(algorithm, feature) { Ok(()) } else { Err(unsupported_feature(algorithm, feature)) }
    }
}

/// A reservation's bits are those of the features that it needs.
const _: () =
    assert!(Reserves::Estimate as u16 * Feature::Reserve.bit() == Feature::Reserve.bit() | Feature::ActualCost.bit());

#[cold]
fn unsupported(algorithm: Algorithm, missing: u16) -> StoreError {
    if missing & KEPT != 0 {
        return StoreError::unsupported(format!("the store does not keep limits by `{algorithm}`"));
    }
    let feature = Feature::ALL.iter().copied().find(|feature| missing & feature.bit() != 0);
    unsupported_feature(algorithm, feature.unwrap_or(Feature::Limits))
}

fn unsupported_feature(algorithm: Algorithm, feature: Feature) -> StoreError {
    StoreError::unsupported(format!("under `{algorithm}`, the store does not offer {}", feature.asked_for_by()))
}

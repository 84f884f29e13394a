//! What a store can do, as its author says: a case of the full suite that needs more is not run, and the store has to
//! answer `Unsupported` instead.

use super::Subject;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Store;
use crate::{Algorithm, Limit};

/// Something that a store may leave out. `acquire`, `peek` and `reset` it may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Calls of a cost other than 1.
    Cost,
    /// Costs above 1,000.
    LargeCost,
    /// Several limits on one key.
    Limits,
    /// [`Store::refund`].
    Refund,
    /// Reservations: [`Request::reserving`](crate::store::Request::reserving), [`Store::commit`].
    Reserve,
    /// Bans: [`Store::block`], [`Store::unblock`], [`Request::with_block`](crate::store::Request::with_block).
    Block,
    /// [`Store::acquire_all`] of several requests.
    Together,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Cost, Self::LargeCost, Self::Limits, Self::Refund, Self::Reserve, Self::Block, Self::Together];
}

/// What a store claims to do; see [`conformance!`](crate::conformance!).
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    without: Vec<(Algorithm, Option<Feature>)>,
}

impl Capabilities {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// The same without an algorithm.
    #[must_use]
    pub fn without_algorithm(mut self, algorithm: Algorithm) -> Self {
        self.without.push((algorithm, None));
        self
    }

    /// The same without a feature under one algorithm.
    #[must_use]
    pub fn without(mut self, algorithm: Algorithm, feature: Feature) -> Self {
        self.without.push((algorithm, Some(feature)));
        self
    }

    /// Whether the store keeps limits by this algorithm.
    #[must_use]
    pub fn has_algorithm(&self, algorithm: Algorithm) -> bool {
        !self.without.contains(&(algorithm, None))
    }

    /// Whether the store has the feature under this algorithm.
    #[must_use]
    pub fn has(&self, algorithm: Algorithm, feature: Feature) -> bool {
        self.has_algorithm(algorithm) && !self.without.contains(&(algorithm, Some(feature)))
    }
}

/// What a store without the algorithm, or without the feature, has to say when asked for it.
pub(super) async fn assert_unsupported<S: Store>(subject: Subject<'_, S>, feature: Option<Feature>) {
    let refused = match ask_for(subject, feature).await {
        Ok(()) => None,
        Err(error) => Some(error.kind()),
    };
    assert_eq!(refused, Some(StoreErrorKind::Unsupported), "a store that cannot do {feature:?} has to say so");
}

async fn ask_for<S: Store>(mut subject: Subject<'_, S>, feature: Option<Feature>) -> Result<(), StoreError> {
    let store = &subject.bench.store;
    match feature {
        None => {
            let _ = store.acquire(subject.request(1)).await?;
        }
        Some(Feature::Cost) => {
            let _ = store.acquire(subject.request(2)).await?;
        }
        Some(Feature::LargeCost) => {
            subject.limits = vec![Limit::per_hour(1 << 40)];
            let _ = store.acquire(subject.request(1 << 30)).await?;
        }
        Some(Feature::Limits) => {
            subject.limits.push(Limit::per_hour(9));
            let _ = store.acquire(subject.request(1)).await?;
        }
        Some(Feature::Refund) => {
            let ticket = store.acquire(subject.request(1)).await?.ticket;
            store.refund(subject.request(1), ticket).await?;
        }
        Some(Feature::Reserve) => {
            let _ = store.acquire(subject.request(1).reserving()).await?;
        }
        Some(Feature::Block) => store.block(subject.request(1), super::MINUTE).await?,
        Some(Feature::Together) => {
            let other = subject.bench.subject("other", subject.algorithm, 5);
            store.acquire_all(&[subject.request(1), other.request(1)]).await?;
        }
    }
    Ok(())
}

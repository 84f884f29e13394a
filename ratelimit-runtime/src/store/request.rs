//! [`Request`]: a question to a store: a key, its limits, and the cost of the call.

use std::fmt;
use std::time::{Duration, Instant};

use crate::algorithm::{Demand, Reserves};
use crate::rule::{Algorithm, BlockDuration, Limit, Terms};

/// One question to a store: a key, the limits that hold for it, and the cost of the call. A limiter
/// makes it; a store reads it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    pub(crate) key: &'a [u8],
    /// The length of the part of the key that all keys of its rule share, in bytes.
    pub(crate) rule_len: usize,
    pub(crate) algorithm: Algorithm,
    pub(crate) limits: &'a [Limit],
    pub(crate) cost: u64,
    pub(crate) block: BlockDuration,
    pub(crate) reserves: Reserves,
    pub(crate) is_sent_again: bool,
    pub(crate) timeout_at: Option<Instant>,
    /// 0 where no units are taken ahead.
    pub(crate) prefetch_us: u32,
}

impl Request<'static> {
    /// A call of cost 1 that asks for nothing.
    pub(crate) const PLAIN: Self = Self {
        key: &[],
        rule_len: 0,
        algorithm: Algorithm::SlidingWindow,
        limits: &[],
        cost: 1,
        block: BlockDuration::NONE,
        reserves: Reserves::Nothing,
        is_sent_again: false,
        timeout_at: None,
        prefetch_us: 0,
    };
}

impl<'a> Request<'a> {
    /// A call of cost 1 by these terms, for the features that every call by them uses.
    pub(crate) fn by(terms: &'a Terms) -> Self {
        Self {
            algorithm: terms.algorithm(),
            limits: terms.limits(),
            block: terms.block,
            ..Request::PLAIN
        }
    }

    /// The whole stored key: prefix, version of the format, algorithm, windows, name, and the
    /// rendered key. It is unique, and never holds a brace, so it spreads over a cluster's slots.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The part of [`key`](Self::key) that all keys of this rule share.
    #[must_use]
    pub fn rule_key(&self) -> &'a [u8] {
        self.split_key().0
    }

    /// The key, split behind the part that all keys of its rule share.
    pub(crate) fn split_key(&self) -> (&'a [u8], &'a [u8]) {
        let split = self.key.split_at_checked(self.rule_len);
        debug_assert!(split.is_some(), "a key is not shorter than its beginning");
        split.unwrap_or((&[], self.key))
    }

    /// The algorithm by which the store keeps the limits.
    #[must_use]
    #[inline]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The limits, one or more, all of which have to admit the call. Their windows are fixed for a
    /// key; their `max` may differ from call to call.
    #[must_use]
    #[inline]
    pub fn limits(&self) -> &'a [Limit] {
        self.limits
    }

    /// The cost of the call. In a request to acquire or peek it is at most what the limits admit
    /// at once.
    #[must_use]
    #[inline]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// The time for which a refusal by the limits blocks the key, for the first offence if blocks
    /// grow; zero for no block. A refusal by a block does not extend it. A refusal that only open
    /// reservations cause, other than [estimates](Self::is_estimate), sets none.
    #[must_use]
    pub fn block(&self) -> Duration {
        self.block.first()
    }

    /// The longest block, up to which each offence doubles the next one; zero if blocks do not
    /// grow. A key's offences are forgotten this long after its last block has ended, or sooner, if
    /// the request that set the block had a shorter longest block.
    ///
    /// A request in shadow mode has a longest block without a [`block`](Self::block): it
    /// sets no block, and keeps the offences.
    #[must_use]
    pub fn longest_block(&self) -> Duration {
        Duration::from_micros(self.block.longest_us())
    }

    /// `true` if a limit is a calendar quota, under the algorithm that keeps those.
    #[inline]
    pub(crate) fn has_calendar(&self) -> bool {
        self.algorithm == Algorithm::FixedWindow
            && self
                .limits
                .iter()
                .any(|limit| limit.by_calendar().is_some())
    }

    /// `true` if an admission is only a reservation, which counts until it is settled.
    #[must_use]
    #[inline]
    pub fn is_reservation(&self) -> bool {
        self.reserves != Reserves::Nothing
    }

    /// `true` if the cost of a reservation is an estimate: [`Store::settle`](super::Store::settle)
    /// is given the actual cost.
    #[must_use]
    #[inline]
    pub fn is_estimate(&self) -> bool {
        self.reserves == Reserves::Estimate
    }

    /// `true` if a request to settle was sent before, and may have been carried out: then nothing
    /// is charged if the reservation is not found.
    #[must_use]
    #[inline]
    pub fn is_sent_again(&self) -> bool {
        self.is_sent_again
    }

    /// The time at which the caller stops waiting; `None` for no limit. A store may ignore it: the
    /// limiter drops a late answer. A store that queues requests can leave out those whose callers
    /// have stopped waiting.
    #[must_use]
    pub fn timeout_at(&self) -> Option<Instant> {
        self.timeout_at
    }

    /// The time for which a process may spend units that it takes ahead; zero if it takes none, as
    /// for a reservation, which is settled with the store. A store may ignore it: it allows
    /// admissions from memory of units charged earlier.
    #[must_use]
    pub fn prefetch(&self) -> Duration {
        let lease = if self.is_reservation() {
            0
        } else {
            self.prefetch_us
        };
        Duration::from_micros(lease.into())
    }

    /// The longest that a charge may live: the longest window; two for a sliding counter; the time
    /// in which a full bucket drains. A reservation that is never settled may live for this or the
    /// longest window, whichever is longer; a block lives as long as it was given.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        Duration::from_micros(self.demand().horizon_us())
    }

    /// The part of the request that an algorithm has to know.
    #[inline]
    pub(crate) fn demand(&self) -> Demand<'a> {
        Demand {
            algorithm: self.algorithm,
            limits: self.limits,
            cost: self.cost,
            reserves: self.reserves,
        }
    }
}

/// Requests by hand: for the tests and programs of this workspace.
#[cfg(any(test, feature = "_tests"))]
#[doc(hidden)]
impl<'a> Request<'a> {
    /// A call of cost 1. Where a store is to decide on it, there is at least one limit.
    #[must_use]
    pub fn new(key: &'a [u8], algorithm: Algorithm, limits: &'a [Limit]) -> Self {
        Self {
            key,
            algorithm,
            limits,
            ..Request::PLAIN
        }
    }

    #[must_use]
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    #[must_use]
    pub fn with_block(self, block: Duration) -> Self {
        let block = BlockDuration::fixed(block);
        Self { block, ..self }
    }

    #[must_use]
    pub fn with_growing_block(self, first: Duration, longest: Duration) -> Self {
        let block = BlockDuration::growing(first, longest);
        Self { block, ..self }
    }

    #[must_use]
    pub fn reserving(self) -> Self {
        Self {
            reserves: Reserves::Cost,
            ..self
        }
    }

    #[must_use]
    pub fn reserving_estimate(self) -> Self {
        Self {
            reserves: Reserves::Estimate,
            ..self
        }
    }

    #[must_use]
    pub fn sent_again(self) -> Self {
        Self {
            is_sent_again: true,
            ..self
        }
    }

    #[must_use]
    pub fn with_timeout_at(self, timeout_at: Instant) -> Self {
        Self {
            timeout_at: Some(timeout_at),
            ..self
        }
    }

    #[must_use]
    pub fn with_prefetch(self, lease: Duration) -> Self {
        Self {
            prefetch_us: u32::try_from(lease.as_micros()).unwrap_or(u32::MAX),
            ..self
        }
    }
}

impl fmt::Debug for Request<'_> {
    /// Without the key, which may hold personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("rule", &String::from_utf8_lossy(self.rule_key()))
            .field("algorithm", &self.algorithm)
            .field("limits", &self.limits)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

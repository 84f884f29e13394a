//! [`Bucket`]: the state of one key, under any algorithm, so that one table holds all keys. Blocks
//! are beside the algorithm's state, because they are the same for all.

mod block;
mod kept;

use self::kept::KeyState;
#[allow(
    clippy::wildcard_imports,
    reason = "the table names what each algorithm keeps"
)]
use crate::algorithm::*;
use crate::rule::{Algorithm, Limit};
use crate::store::request::Request;
use crate::store::verdict::{Settled, Verdict};

macro_rules! buckets {
    ($($(#[$attribute:meta])* $variant:ident $module:ident($state:ty) $row:tt)*) => {
        /// The state of one key. It looks up the algorithm once per call; the rest is in
        /// [`KeyState`].
        #[allow(clippy::enum_variant_names, reason = "they are the names of the algorithms")]
        #[derive(Debug)]
        pub(in crate::store) enum Bucket {
            $($variant(KeyState<$state>),)*
        }

        impl Bucket {
            pub(in crate::store) fn new(algorithm: Algorithm) -> Self {
                match algorithm { $(Algorithm::$variant => Self::$variant(KeyState::default()),)* }
            }

            fn algorithm(&self) -> Algorithm {
                match self { $(Self::$variant(_) => Algorithm::$variant,)* }
            }
        }
    };
}

crate::__algorithms!(buckets);

/// Evaluates `$work` with the [`KeyState`] of the bucket's algorithm.
macro_rules! with {
    (($bucket:expr, $kept:ident => $work:expr) $($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        match $bucket { $(Bucket::$variant($kept) => $work,)* }
    };
    ($bucket:expr, $kept:ident => $work:expr) => {
        crate::__algorithms!(with, ($bucket, $kept => $work))
    };
}

impl Bucket {
    #[allow(clippy::inline_always, reason = "it is what a store does")]
    #[inline(always)]
    pub(in crate::store) fn acquire(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        with!(self, kept => kept.acquire(request, now))
    }

    /// The verdict of [`acquire`](Self::acquire), without a charge.
    pub(in crate::store) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        with!(self, kept => kept.peek(request, now))
    }

    /// Sets the block of a request that the limits refuse.
    pub(in crate::store) fn offend(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        with!(self, kept => kept.offend(request, now))
    }

    pub(in crate::store) fn refund(
        &mut self,
        request: &Request<'_>,
        ticket: u64,
        now: u64,
    ) -> bool {
        with!(self, kept => kept.refund(request, ticket, now))
    }

    pub(in crate::store) fn settle(
        &mut self,
        request: &Request<'_>,
        ticket: u64,
        actual: u64,
        now: u64,
    ) -> Settled {
        with!(self, kept => kept.settle(request, ticket, actual, now))
    }

    pub(in crate::store) fn block(&mut self, request: &Request<'_>, duration: u64, now: u64) {
        with!(self, kept => kept.block(request, duration, now));
    }

    pub(in crate::store) fn unblock(&mut self, now: u64) -> bool {
        with!(self, kept => kept.unblock(now))
    }

    /// See [`KeyState::loss`].
    pub(in crate::store) fn loss(&mut self, limits: &[Limit], now: u64) -> Option<u64> {
        let request = Request {
            algorithm: self.algorithm(),
            limits,
            cost: 0,
            ..Request::PLAIN
        };
        with!(self, kept => kept.loss(&request, now))
    }

    /// `true` if no charge and no block of the state counts any more.
    pub(in crate::store) fn is_void(&self, now: u64) -> bool {
        with!(self, kept => kept.is_void(now))
    }
}

//! [`Bucket`]: the state of one key, under whichever algorithm.

mod block;
mod kept;

use self::kept::Kept;
#[allow(clippy::wildcard_imports, reason = "the table names what each algorithm keeps")]
use crate::algorithm::*;
use crate::rule::{Algorithm, Limit};
use crate::store::request::Request;
use crate::store::verdict::{Settled, Verdict};

macro_rules! buckets {
    ($($(#[$attribute:meta])* $variant:ident $module:ident($state:ty) $row:tt)*) => {
        /// The state of one key. Its algorithm is looked at once per call: [`Kept`] does the rest.
        #[allow(clippy::enum_variant_names, reason = "they are the names of the algorithms")]
        #[derive(Debug)]
        pub(in crate::store) enum Bucket {
            $($variant(Kept<$state>),)*
        }

        impl Bucket {
            pub(in crate::store) fn new(algorithm: Algorithm) -> Self {
                match algorithm { $(Algorithm::$variant => Self::$variant(Kept::default()),)* }
            }

            /// See [`Kept::copy`].
            pub(in crate::store) fn copy(&mut self, request: &Request<'_>, now: u64) -> Self {
                match self { $(Self::$variant(kept) => Self::$variant(kept.copy(request, now)),)* }
            }

            fn algorithm(&self) -> Algorithm {
                match self { $(Self::$variant(_) => Algorithm::$variant,)* }
            }
        }
    };
}

crate::__algorithms!(buckets);

/// What `$work` makes of the state, whatever algorithm it is.
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

    /// [`acquire`](Self::acquire) of a bucket that is not a known key's, out of line.
    #[cold]
    #[inline(never)]
    pub(in crate::store) fn acquire_first(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        self.acquire(request, now)
    }

    /// What [`acquire`](Self::acquire) would say.
    pub(in crate::store) fn peek(&mut self, request: &Request<'_>, now: u64) -> Verdict {
        with!(self, kept => kept.peek(request, now))
    }

    pub(in crate::store) fn refund(&mut self, request: &Request<'_>, ticket: u64, now: u64) -> bool {
        with!(self, kept => kept.refund(request, ticket, now))
    }

    pub(in crate::store) fn settle(&mut self, request: &Request<'_>, ticket: u64, actual: u64, now: u64) -> Settled {
        with!(self, kept => kept.settle(request, ticket, actual, now))
    }

    pub(in crate::store) fn block(&mut self, request: &Request<'_>, duration: u64, now: u64) {
        with!(self, kept => kept.block(request, duration, now));
    }

    pub(in crate::store) fn unblock(&mut self, now: u64) -> bool {
        with!(self, kept => kept.unblock(now))
    }

    /// See [`Kept::loss`].
    pub(in crate::store) fn loss(&mut self, limits: &[Limit], now: u64) -> Option<u64> {
        let request = Request::new(&[], self.algorithm(), limits).with_cost(0);
        with!(self, kept => kept.loss(&request, now))
    }

    /// Whether nothing of the state counts any more.
    pub(in crate::store) fn is_void(&self, now: u64) -> bool {
        with!(self, kept => kept.is_void(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const START: u64 = 1_000_000_000;
    const MINUTE: u64 = 60_000_000;

    fn ask(limits: &[Limit], cost: u64) -> Request<'_> {
        Request::new(b"key", Algorithm::SlidingWindow, limits).with_cost(cost)
    }

    #[test]
    fn a_slot_used_at_t_is_free_at_t_plus_window() {
        let limits = [Limit::per_minute(2)];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        assert!(bucket.acquire(&ask(&limits, 1), START).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + 10).allowed);
        let refused = bucket.acquire(&ask(&limits, 1), START + 20);
        let (retry_after_us, reset_after_us) = (MINUTE - 20, MINUTE - 10);
        assert_eq!(refused, Verdict { retry_after_us, reset_after_us, ..Verdict::refused() });
        assert!(!bucket.acquire(&ask(&limits, 1), START + MINUTE - 1).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + MINUTE).allowed);
        assert!(!bucket.acquire(&ask(&limits, 1), START + MINUTE + 9).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + MINUTE + 10).allowed);
    }

    #[test]
    fn several_limits_are_charged_all_or_none() {
        let limits = [Limit::per_minute(3), Limit::new(4, Duration::from_secs(3600))];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        for step in 0..3 {
            assert!(bucket.acquire(&ask(&limits, 1), START + step).allowed);
        }
        let refused = bucket.acquire(&ask(&limits, 1), START + 3);
        assert_eq!((refused.limit_index, refused.retry_after_us), (0, MINUTE - 3));
        assert!(bucket.acquire(&ask(&limits, 1), START + MINUTE).allowed);
        let refused = bucket.acquire(&ask(&limits, 1), START + MINUTE + 2);
        assert_eq!((refused.limit_index, refused.retry_after_us), (1, 60 * MINUTE - MINUTE - 2));
    }

    #[test]
    fn a_clock_that_steps_back_admits_no_more_until_it_has_caught_up() {
        let limits = [Limit::per_minute(1)];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        assert!(bucket.acquire(&ask(&limits, 1), START + 100 * MINUTE).allowed);
        let refused = bucket.acquire(&ask(&limits, 1), START);
        assert_eq!((refused.allowed, refused.retry_after_us), (false, 101 * MINUTE));
        assert!(!bucket.acquire(&ask(&limits, 1), START + 101 * MINUTE - 1).allowed);
        assert!(bucket.acquire(&ask(&limits, 1), START + 101 * MINUTE).allowed);
    }

    #[test]
    fn a_heavy_call_waits_for_as_many_units_as_it_needs() {
        let limits = [Limit::per_minute(10)];
        let mut bucket = Bucket::new(Algorithm::SlidingWindow);
        for (step, cost) in [4, 3, 3].into_iter().enumerate() {
            assert!(bucket.acquire(&ask(&limits, cost), START + step as u64).allowed);
        }
        assert_eq!(bucket.peek(&ask(&limits, 1), START + 5).retry_after_us, MINUTE - 5);
        assert_eq!(bucket.peek(&ask(&limits, 5), START + 5).retry_after_us, MINUTE - 1);
        assert_eq!(bucket.peek(&ask(&limits, 10), START + 5).retry_after_us, MINUTE + 4);
    }
}

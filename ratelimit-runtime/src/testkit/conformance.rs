//! The contract of a [`Store`](crate::store::Store), as tests:
//! [`conformance!`](crate::conformance!) makes them of yours, one for each case and algorithm;
//! [`all`] runs them in one.
//!
//! The cases move a [`FakeClock`](crate::testkit::FakeClock) and never sleep. They see a store only
//! through its trait, and use keys that no other case, process or earlier run uses, so a database
//! may be shared. All figures are compared exactly, to the microsecond.
//!
//! A store [declares](crate::store::Store::capabilities) what it can do. A case that needs more is
//! not passed over in silence: it makes sure that a limiter reports the lack as an error, and
//! prints what was not tried. Whether a store takes a cost is asked by
//! [`Store::supports`](crate::store::Store::supports).

#![allow(clippy::unchecked_time_subtraction, reason = "shorter from longer constants")]

mod agreement;
mod answers;
mod bench;
mod blocks;
mod bucket;
mod clocks;
mod costs;
mod counting;
mod keys;
mod limits;
mod random;
mod refunds;
mod reservations;
mod suite;
mod together;
mod undeclared;
mod waits;

pub use self::suite::{all, run};

/// Makes a module of tests that check a [`Store`](crate::store::Store) against its contract, one
/// `#[test]` per case and algorithm.
///
/// The second argument is called once per test, without arguments, and gives a future of the store
/// and the [`FakeClock`](crate::testkit::FakeClock) that it reads. Each test runs on a tokio
/// runtime of its own.
///
/// ```
/// use ratelimit_runtime::MemoryStore;
/// use ratelimit_runtime::testkit::FakeClock;
///
/// async fn memory_store() -> (MemoryStore, FakeClock) {
///     let clock = FakeClock::new();
///     (MemoryStore::new().with_clock(clock.clone()), clock)
/// }
///
/// ratelimit_runtime::conformance!(memory, memory_store);
/// # fn main() { let _ = memory_store; }
/// ```
///
/// A feature that the store does not [declare](crate::store::Store::capabilities) is not tried;
/// instead the test makes sure that a limiter refuses it.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $factory:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports, reason = "the factory may name what stands around the module")]
            use super::*;

            $crate::__conformance_cases!($crate::__conformance_tests, ($factory));
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    (($factory:expr) every $every:tt sliding_window $sliding_window:tt) => {
        $crate::__conformance_tests! { sliding_window SlidingWindow $factory, $every $sliding_window }
        $crate::__conformance_tests! { sliding_counter SlidingCounter $factory, $every {} }
        $crate::__conformance_tests! { fixed_window FixedWindow $factory, $every {} }
        $crate::__conformance_tests! { token_bucket TokenBucket $factory, $every {} }
        $crate::__conformance_tests! { leaky_bucket LeakyBucket $factory, $every {} }
    };
    ($module:ident $algorithm:ident $factory:expr, $({ $($room:ident::$case:ident $needs:tt)* })*) => {
        mod $module {
            #[allow(unused_imports, reason = "the factory may name what stands around the module")]
            use super::*;

            $($(
                #[test]
                fn $case() {
                    $crate::testkit::conformance::run(stringify!($case), $crate::Algorithm::$algorithm, $factory);
                }
            )*)*
        }
    };
}

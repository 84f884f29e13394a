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

mod bench;
mod declared;
mod every;
mod random;
mod suite;
mod test_key;
mod undeclared;

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

/// A module for each algorithm, with a test for each of its cases.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    // A log has cases of its own.
    (@ $variant:ident $module:ident { is_log: true, $($row:tt)* } ($factory:tt $every:tt $log:tt)) => {
        $crate::__conformance_tests! { @ $variant $module $factory $every $log }
    };
    (@ $variant:ident $module:ident { is_log: false, $($row:tt)* } ($factory:tt $every:tt $log:tt)) => {
        $crate::__conformance_tests! { @ $variant $module $factory $every {} }
    };
    (@ $variant:ident $module:ident ($factory:expr) $({ $($folder:ident::$case:ident $needs:tt)* })*) => {
        mod $module {
            #[allow(unused_imports, reason = "the factory may name what stands around the module")]
            use super::*;

            $($(
                #[test]
                fn $case() {
                    $crate::testkit::conformance::run(stringify!($case), $crate::Algorithm::$variant, $factory);
                }
            )*)*
        }
    };
    ($factory:tt every $every:tt log $log:tt) => {
        $crate::__algorithms! { $crate::__conformance_tests, ($factory $every $log) }
    };
    ($cases:tt $($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        $($crate::__conformance_tests! { @ $variant $module $row $cases })*
    };
}

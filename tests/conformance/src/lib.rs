//! The contract of a [`Store`] of `ratelimit-runtime`, as tests for the authors of stores.
//!
//! ```toml
//! [dev-dependencies]
//! ratelimit-conformance = "0.1"
//! ratelimit-runtime = { version = "0.1", features = ["testkit"] }
//! ```
//!
//! [`conformance!`] makes a module of tests, one for each promise of the contract; [`all`] plays
//! them in one test. The cases move a [`FakeClock`] and never sleep. They use keys that no other
//! case, process or earlier run uses, so a database may be shared. All figures are compared
//! exactly, to the microsecond.
//!
//! A store [declares](Store::capabilities) what it can do. Each case is played under every
//! algorithm for which the store declares what the case needs; for every other algorithm the case
//! makes sure that a limiter reports the lack as an error. What stores may leave to the limiter
//! (stacked keys, calls in flight) is asked for through a limiter, as an application would.
//!
//! [`Reference`] is a model of every algorithm, for tests of your own.

#![allow(
    clippy::unchecked_time_subtraction,
    reason = "shorter from longer constants"
)]

mod bench;
mod declared;
mod every;
mod random;
mod reference;
mod suite;
mod test_key;
mod undeclared;

pub use self::reference::Reference;
pub use self::suite::{ALGORITHMS, all, run};

#[cfg(doc)]
use ratelimit_runtime::store::Store;
#[cfg(doc)]
use ratelimit_runtime::testkit::FakeClock;

/// Makes a module of tests that check a [`Store`] against its contract, one `#[test]` per promise.
///
/// The second argument is called once per case and algorithm, without arguments, and gives a future
/// of the store and the [`FakeClock`] that the store reads. Each test runs on a tokio runtime of
/// its own.
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
/// ratelimit_conformance::conformance!(memory, memory_store);
/// # fn main() { let _ = memory_store; }
/// ```
#[macro_export]
macro_rules! conformance {
    ($name:ident, $factory:expr $(,)?) => {
        mod $name {
            #[allow(
                unused_imports,
                reason = "the factory may name what stands around the module"
            )]
            use super::*;

            $crate::__cases!($crate::__tests, ($factory));
        }
    };
}

/// A test for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($factory:tt $($folder:ident::$case:ident $needs:tt)*) => {
        $($crate::__tests! { @ $case $factory })*
    };
    (@ $case:ident ($factory:expr)) => {
        #[test]
        fn $case() {
            $crate::run(stringify!($case), $factory);
        }
    };
}

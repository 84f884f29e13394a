//! The contract of a [`Store`], as tests: [`conformance!`](crate::conformance!) runs them on yours.
//!
//! The cases move a [`FakeClock`] and never sleep. They see a store only through its trait, and use keys that no other
//! case, process or earlier run uses, so a database may be shared.
//!
//! **Ties.** A store may date what it admits a microsecond later for every unit that shares the moment, as a log of
//! unique integers does, and never earlier. Cases with weights allow for that; all other figures are compared exactly.

#![allow(clippy::missing_panics_doc, reason = "a case panics when the store fails it: that is what it is for")]
#![allow(clippy::unchecked_time_subtraction, reason = "shorter from longer constants")]

mod agreement;
mod bans;
mod capabilities;
mod clocks;
mod costs;
mod counting;
mod limits;
mod random;
mod refunds;
mod reservations;
mod subject;
mod suite;
mod time;
mod together;
mod weights;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::{FakeClock, Reference};
use crate::clock::Clock as _;
use crate::store::{Answer, Request, Store, Verdict};
use crate::{Algorithm, Limit};

pub use agreement::*;
pub use bans::*;
pub use capabilities::{Capabilities, Feature};
pub use clocks::*;
pub use costs::*;
pub use counting::*;
pub use limits::*;
pub use random::*;
pub use refunds::*;
pub use reservations::*;
pub use suite::run_under;
pub use time::*;
pub use together::*;
pub use weights::*;

use subject::Subject;
use suite::ALGORITHMS;

/// Makes a module of tests that hold a [`Store`](crate::store::Store) to its contract, one `#[test]` per case.
///
/// The second argument is called once per test, without arguments, and gives a future of the store and the
/// [`FakeClock`](crate::testkit::FakeClock) that it reads. Each test runs on a tokio runtime of its own.
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
/// Like this, a store is held to what every store has to do: exact sliding windows of calls of any cost. With `all` as
/// the third argument it is held to everything, under every algorithm: several limits, refunds, reservations, bans,
/// keys decided together. A store that leaves something out gives its
/// [`Capabilities`](crate::testkit::conformance::Capabilities) instead of `all`: what it does not claim it has to
/// answer with `Unsupported`, so nothing is skipped in silence.
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
/// ratelimit_runtime::conformance!(memory, memory_store, all);
/// # fn main() { let _ = memory_store; }
/// ```
#[macro_export]
macro_rules! conformance {
    ($name:ident, $factory:expr, all $(,)?) => {
        $crate::conformance!($name, $factory, $crate::testkit::conformance::Capabilities::all());
    };
    ($name:ident, $factory:expr, $capabilities:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports, reason = "the factory may name what stands around the module")]
            use super::*;

            $crate::__conformance_algorithms! { $factory, $capabilities;
                sliding_window SlidingWindow,
                sliding_counter SlidingCounter,
                fixed_window FixedWindow,
                token_bucket TokenBucket,
                leaky_bucket LeakyBucket,
            }
        }
    };
    ($name:ident, $factory:expr $(,)?) => {
        mod $name {
            #[allow(unused_imports, reason = "the factory may name what stands around the module")]
            use super::*;

            $crate::__conformance_tests! { $factory;
                admits_exactly_max
                remaining_counts_down
                a_refusal_consumes_nothing
                peek_changes_nothing
                peek_agrees_with_the_next_call
                reset_frees_everything
                keys_are_independent
                hostile_keys_are_keys
                a_burst_admits_exactly_max
                every_call_is_held_against_its_own_max
                the_largest_max
                a_refusal_names_the_exact_moment
                slots_come_free_one_by_one
                reset_after_is_exact
                a_window_of_a_millisecond
                a_window_of_366_days
                a_clock_that_steps_back_admits_no_more
                a_clock_that_steps_back_keeps_nothing_longer
                a_clock_that_jumps_ahead_empties
                weights_add_up
                a_heavy_call_waits_for_enough
                random_calls_agree_with_the_reference
                random_weights_agree_with_the_reference
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($factory:expr; $($case:ident)*) => {$(
        #[test]
        fn $case() {
            $crate::testkit::conformance::run(stringify!($case), $factory, $crate::testkit::conformance::$case);
        }
    )*};
}

/// Runs one case on a tokio runtime of its own.
#[doc(hidden)]
pub fn run<S, F, M, C, T>(name: &str, factory: F, case: C)
where
    S: Store,
    F: FnOnce() -> M,
    M: Future<Output = (S, FakeClock)>,
    C: FnOnce(Bench<S>) -> T,
    T: Future<Output = ()>,
{
    let runtime = answered(tokio::runtime::Builder::new_current_thread().enable_all().build());
    runtime.block_on(async {
        let (store, clock) = Box::pin(factory()).await;
        Box::pin(case(Bench::new(store, clock, name, Capabilities::all()))).await;
    });
}

/// A store under test, the clock it reads, and names for keys that are its case's own.
#[derive(Debug)]
pub struct Bench<S> {
    store: Arc<S>,
    clock: FakeClock,
    prefix: String,
    capabilities: Capabilities,
}

impl<S: Store> Bench<S> {
    fn new(store: S, clock: FakeClock, case: &str, capabilities: Capabilities) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let prefix =
            format!("conformance:{case}:{}-{nanos:x}-{}:", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { store: Arc::new(store), clock, prefix, capabilities }
    }

    /// A key that nobody has used, ending in `suffix`.
    fn key(&self, suffix: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), suffix].concat()
    }

    /// An unused key under a limit, watched by the reference.
    fn bucket(&self, suffix: &str, max: u64, window: Duration) -> Bucket<'_, S> {
        Bucket {
            bench: self,
            key: self.key(suffix.as_bytes()),
            limit: Limit::new(max, window),
            reference: Reference::sliding_window(),
            spread: 0,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap_or(u64::MAX)
    }
}

/// One key under one limit. Every answer is compared with the reference, to the microsecond.
struct Bucket<'a, S> {
    bench: &'a Bench<S>,
    key: Vec<u8>,
    limit: Limit,
    reference: Reference,
    /// How much later than it was, in microseconds, the store may date what it admits.
    spread: u64,
}

impl<S: Store> Bucket<'_, S> {
    async fn acquire(&mut self) -> Verdict {
        self.acquire_cost(1).await
    }

    /// A call that has to be admitted.
    async fn admit(&mut self) {
        let verdict = self.acquire().await;
        assert!(verdict.allowed, "there is room: {verdict:?}");
    }

    async fn acquire_cost(&mut self, cost: u64) -> Verdict {
        let verdict = self.ask_store(Kind::Acquire, cost).await;
        self.compare(Kind::Acquire, cost, verdict);
        verdict
    }

    async fn peek(&mut self) -> Verdict {
        self.peek_cost(1).await
    }

    async fn peek_cost(&mut self, cost: u64) -> Verdict {
        let verdict = self.ask_store(Kind::Peek, cost).await;
        self.compare(Kind::Peek, cost, verdict);
        verdict
    }

    /// Asks without comparing, for moments at which the reference knows no single right answer.
    async fn acquire_unwatched(&self) -> Verdict {
        self.ask_store(Kind::Acquire, 1).await
    }

    async fn reset(&mut self) -> bool {
        self.reference = Reference::sliding_window();
        let limits = [self.limit];
        answered(self.bench.store.reset(request(&self.key, &limits)).await)
    }

    async fn ask_store(&self, kind: Kind, cost: u64) -> Verdict {
        let limits = [self.limit];
        let request = request(&self.key, &limits).with_cost(cost);
        let answer: Answer<'_, Verdict> = match kind {
            Kind::Acquire => self.bench.store.acquire(request),
            Kind::Peek => self.bench.store.peek(request),
        };
        answered(answer.await)
    }

    /// Holds a verdict against the reference twice: as things are, and as if everything had been admitted `spread`
    /// later. With a spread of 0 both say the same, and the verdict must, too.
    fn compare(&mut self, kind: Kind, cost: u64, verdict: Verdict) {
        let Self { limit, spread, .. } = *self;
        let now = self.bench.now();
        let late = now - spread;
        let asked = format!("{kind:?} of {cost} at {now} under {limit:?} was answered {verdict:?}");

        let soonest = self.reference.wait(now, limit, cost);
        let latest = self.reference.wait(late, limit, cost);
        if verdict.allowed {
            assert_eq!(soonest, 0, "must be refused for another {soonest} µs: {asked}");
            assert_eq!(verdict.retry_after_us, 0, "what is admitted need not wait: {asked}");
            if matches!(kind, Kind::Acquire) {
                self.reference.charge(now, limit, cost);
            }
        } else {
            assert_ne!(latest, 0, "must be admitted: {asked}");
            let range = soonest.max(1)..=latest;
            assert!(range.contains(&verdict.retry_after_us), "retry_after must be in {range:?}: {asked}");
        }

        let remaining = self.reference.remaining(late, limit)..=self.reference.remaining(now, limit);
        assert!(remaining.contains(&verdict.remaining), "remaining must be in {remaining:?}: {asked}");
        let reset = self.reference.reset_after(now, limit)..=self.reference.reset_after(late, limit);
        assert!(reset.contains(&verdict.reset_after_us), "reset_after must be in {reset:?}: {asked}");
        assert_eq!(verdict.limit_index, 0, "there is one limit: {asked}");
    }

    fn advance(&self, by: Duration) {
        self.bench.clock.advance(by);
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Acquire,
    Peek,
}

fn request<'a>(key: &'a [u8], limits: &'a [Limit]) -> Request<'a> {
    Request::new(key, Algorithm::SlidingWindow, limits)
}

/// A refusal is a verdict; an error fails the case.
fn answered<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        #[allow(clippy::panic, reason = "a store that cannot answer fails its case")]
        Err(error) => panic!("the store under test gave no answer: {error:?}"),
    }
}

const MICROSECOND: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

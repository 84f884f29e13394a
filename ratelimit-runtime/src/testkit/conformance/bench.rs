//! What a case works on: a store, the clock it reads, and keys of its own.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::rule::{Algorithm, Limit};
use crate::store::{BuiltInStore, Feature, Request, Store};
use crate::testkit::FakeClock;

pub(super) const MICROSECOND: Duration = Duration::from_micros(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);

/// A store under test, the clock it reads, and names for keys that are its case's own.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: FakeClock,
    prefix: String,
}

impl Bench {
    pub(super) fn new(store: Arc<dyn Store>, clock: FakeClock, case: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let prefix =
            format!("conformance:{case}:{}-{nanos:x}-{}:", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { store, clock, prefix }
    }

    /// What a store of this crate does beyond the trait, also below layers.
    pub(super) fn built_in(&self) -> &dyn BuiltInStore {
        self.store.innermost()
    }

    /// An unused key, ending in `suffix`.
    pub(super) fn key(&self, suffix: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), suffix].concat()
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn has(&self, algorithm: Algorithm, feature: Feature) -> bool {
        self.store.capabilities().supports_feature(algorithm, feature)
    }

    /// Whether the store takes calls of this cost.
    pub(super) fn takes(&self, algorithm: Algorithm, cost: u64) -> bool {
        let limits = [Limit::per_minute(cost.max(1))];
        self.store.innermost().supports(&Request::new(b"", algorithm, &limits).with_cost(cost)).is_ok()
    }

    /// Whether the store decides these in one step. Where it does not, a limiter asks for one after
    /// the other.
    pub(super) fn together(&self, requests: &[Request<'_>]) -> bool {
        let together = self.store.own().decides_together(requests);
        if !together {
            let algorithms: Vec<_> = requests.iter().map(Request::algorithm).collect();
            not_tried(&format!("the store does not decide these keys in one step: {algorithms:?}"));
        }
        together
    }
}

/// A refusal is a verdict; an error fails the case.
pub(super) fn answered<T, E: Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        #[allow(clippy::panic, reason = "a store that cannot answer fails its case")]
        Err(error) => panic!("the store under test gave no answer: {error:?}"),
    }
}

#[allow(clippy::print_stdout, reason = "the tests' output says what was not tried")]
pub(super) fn not_tried(why: &str) {
    println!("not tried: {why}");
}

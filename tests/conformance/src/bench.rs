//! What a case works on: a store, the clock it reads, and keys of its own.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use ratelimit_runtime::store::{Feature, Request, Store, StoreErrorKind};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, OnUnavailable, RateLimiter, RateLimiterBuilder};

pub(crate) const MICROSECOND: Duration = Duration::from_micros(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

/// A store under test, the clock it reads, and names for keys that are its case's own.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: FakeClock,
    prefix: String,
}

impl Bench {
    pub(crate) fn new(store: Arc<dyn Store>, clock: FakeClock, case: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let prefix = format!(
            "conformance:{case}:{}-{nanos:x}-{}:",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self {
            store,
            clock,
            prefix,
        }
    }

    /// An unused key, ending in `suffix`.
    pub(crate) fn key(&self, suffix: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), suffix].concat()
    }

    /// The same as text.
    pub(crate) fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.prefix)
    }

    /// A limiter on the store, which reports what the store cannot answer.
    pub(crate) fn limiter(&self) -> RateLimiter {
        answered(self.limiter_builder().build())
    }

    pub(crate) fn limiter_builder(&self) -> RateLimiterBuilder {
        RateLimiter::builder()
            .store(Arc::clone(&self.store))
            .on_unavailable(OnUnavailable::Deny)
            .timeout(MINUTE)
    }

    pub(crate) fn now(&self) -> u64 {
        micros(self.clock.now())
    }

    pub(crate) fn has(&self, algorithm: Algorithm, feature: Feature) -> bool {
        self.store
            .capabilities()
            .supports_feature(algorithm, feature)
    }

    /// Whether the store takes calls of this cost. A log counts a thousand at once, and no store is
    /// asked for more.
    pub(crate) async fn takes(&self, algorithm: Algorithm, cost: u64) -> bool {
        let (key, limits) = (self.key(b"takes"), [Limit::per_minute(cost.max(1))]);
        let heavy = Request::new(&key, algorithm, &limits).with_cost(cost);
        if is_log(algorithm) && cost > 1_000 {
            return false;
        }
        let refused = self.store.peek(heavy).await.err().map(|error| error.kind());
        refused != Some(StoreErrorKind::Unsupported)
    }
}

/// Whether the algorithm keeps every admission by itself.
pub(crate) fn is_log(algorithm: Algorithm) -> bool {
    algorithm == Algorithm::SlidingWindow
}

/// What one call may cost at most.
pub(crate) fn capacity(algorithm: Algorithm, limit: &Limit) -> u64 {
    if algorithm.has_burst() {
        limit.capacity()
    } else {
        limit.max()
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A refusal is a verdict; an error fails the case.
pub(crate) fn answered<T, E: Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        #[allow(clippy::panic, reason = "a store that cannot answer fails its case")]
        Err(error) => panic!("the store under test gave no answer: {error:?}"),
    }
}

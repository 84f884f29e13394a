//! The deny cache: it answers again what was refused, for as long as that is right.

#![allow(
    clippy::unchecked_time_subtraction,
    reason = "shorter from longer constants"
)]

mod changes;
mod floods;
mod known;
mod on_redis;
mod outages;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use ratelimit_runtime::__private::{BuiltInStore, Health, PermitRequest, PermitVerdict, Sealed};
use ratelimit_runtime::store::{Answer, Capabilities, Request, Settled, StoreError, Verdict};
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, Store};
use tokio::sync::watch;

use crate::support::deny_cache::DenyCache;
use crate::support::layer::forward;

const LIMITS: [Limit; 1] = [Limit::per_minute(1)];
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const MICROSECOND: Duration = Duration::from_micros(1);

fn request(key: &str) -> Request<'_> {
    Request::new(key.as_bytes(), Algorithm::SlidingWindow, &LIMITS)
}

/// A store that is far away: it decides when it is asked, and its answers arrive when the test lets
/// them.
#[derive(Clone)]
struct Far {
    memory: Arc<MemoryStore>,
    /// How often it was asked to decide.
    asked: Arc<AtomicU64>,
    epoch: Arc<AtomicU64>,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Answers,
    /// It decides, and its answers do not arrive.
    Late,
    /// It is away.
    Fails(Health),
}

impl Far {
    fn new() -> Self {
        Self {
            memory: Arc::default(),
            asked: Arc::default(),
            epoch: Arc::default(),
            state: watch::Sender::new(State::Answers),
        }
    }

    fn is(&self, state: State) {
        self.state.send_replace(state);
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    fn far<'a, T: Send + 'a>(
        &'a self,
        decide: impl FnOnce(&'a MemoryStore) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        Answer::later(async move {
            if matches!(*self.state.borrow(), State::Fails(_)) {
                return Err(StoreError::unavailable("away"));
            }
            let decided = decide(&self.memory).known().unwrap();
            let mut states = self.state.subscribe();
            states
                .wait_for(|state| *state != State::Late)
                .await
                .unwrap();
            decided
        })
    }
}

impl Store for Far {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.far(move |memory| {
            self.asked.fetch_add(1, Ordering::SeqCst);
            memory.acquire(request)
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.far(move |memory| memory.peek(request))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.far(move |memory| memory.reset(request))
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.far(move |memory| memory.refund(request, ticket))
    }

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        self.far(move |memory| memory.settle(request, ticket, actual_cost))
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.far(move |memory| memory.block(request, duration))
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.far(move |memory| memory.unblock(request))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl BuiltInStore for Far {
    fn decides_together(&self, _: Option<&PermitRequest>, _: &[Request<'_>]) -> bool {
        true
    }

    fn offend<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.far(move |memory| memory.offend(request))
    }

    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        self.far(move |memory| memory.acquire_all(permit, requests))
    }

    fn health(&self, _: &Request<'_>) -> Health {
        match *self.state.borrow() {
            State::Fails(health) => health,
            _ => Health::Up,
        }
    }
}

/// A far store, and a deny cache around it.
fn cached() -> (Far, Arc<DenyCache<Far>>) {
    let far = Far::new();
    let epoch = Arc::clone(&far.epoch);
    (far.clone(), Arc::new(DenyCache::of_connections(far, epoch)))
}

/// A deny cache that knows `key` to be refused, and the store was asked twice.
async fn refused(key: &str) -> (Far, Arc<DenyCache<Far>>) {
    let (far, cache) = cached();
    assert!(ask(&cache, request(key)).await.allowed);
    let refusal = ask(&cache, request(key)).await;
    assert!(!refusal.allowed && !refusal.cached);
    assert_eq!(far.asked(), 2);
    (far, cache)
}

/// What the cache says without asking.
fn at_once(cache: &DenyCache<Far>, request: Request<'_>) -> Option<Verdict> {
    cache.known_refusal(&request, false)
}

async fn ask(store: &impl Store, request: Request<'_>) -> Verdict {
    store.acquire(request).await.unwrap()
}

/// Polls an answer once; whether it is not there yet.
fn waits<T: Unpin>(answer: &mut Answer<'_, T>) -> bool {
    Pin::new(answer)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_refused_is_refused_again_without_asking() {
    let (far, cache) = refused("key").await;
    let first = far.peek(request("key")).await.unwrap();
    for elapsed in 1..8_u64 {
        tokio::time::advance(MILLISECOND * 100).await;
        let again = ask(&cache, request("key")).await;
        assert!(again.cached && !again.allowed);
        assert_eq!(
            again.retry_after_us,
            first.retry_after_us - elapsed * 100_000
        );
        assert_eq!(
            again.reset_after_us,
            first.reset_after_us - elapsed * 100_000
        );
        assert_eq!(at_once(&cache, request("key")), Some(again), "at once, too");
    }
    assert_eq!(far.asked(), 2);
    assert!(
        !cache.peek(request("key")).await.unwrap().cached,
        "a look is always at the store"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_differs_is_asked() {
    let (far, cache) = refused("key").await;
    let raised = [Limit::per_minute(2)];
    let window = [Limit::per_hour(1)];
    let burst = [Limit::per_minute(1).with_burst(2)];
    let two = [LIMITS[0], window[0]];
    let limits = |limits| Request::new(b"key", Algorithm::SlidingWindow, limits);
    let others = [
        request("other"),
        request("key").with_cost(0),
        request("key").with_block(SECOND),
        limits(&raised),
        limits(&window),
        limits(&burst),
        limits(&two),
        Request::new(b"key", Algorithm::TokenBucket, &LIMITS),
    ];
    for (asked, other) in (3..).zip(others) {
        // Only a look at the cache: what the store says here is not the point.
        assert_eq!(at_once(&cache, other), None, "{other:?}");
        let _ = ask(&far, other.with_cost(0)).await;
        assert_eq!(far.asked(), asked);
    }
    let deadline = std::time::Instant::now();
    assert!(
        ask(&cache, request("key").with_timeout_at(deadline))
            .await
            .cached,
        "until when a caller waits is no matter"
    );
}

/// When the store decided is not known: a refusal holds as if at once, and tells of a wait that is
/// never too short.
#[tokio::test(start_paused = true)]
async fn a_late_refusal_is_known_no_longer_and_its_retry_after_is_no_shorter() {
    let (far, cache) = cached();
    let limits = [Limit::new(1, MILLISECOND * 500)];
    let request = Request::new(b"key", Algorithm::SlidingWindow, &limits);
    assert!(ask(&cache, request).await.allowed);
    far.is(State::Late);
    let (refusal, ()) = tokio::join!(ask(&cache, request), async {
        tokio::time::advance(MILLISECOND * 400).await;
        far.is(State::Answers);
    });
    assert_eq!(refusal.retry_after_us, 500_000, "as the store said");
    tokio::time::advance(MILLISECOND * 40).await;
    assert_eq!(ask(&cache, request).await.retry_after_us, 460_000);
    tokio::time::advance(MILLISECOND * 60).await;
    assert!(ask(&cache, request).await.allowed);
}

/// A store that rounds its waits up admits before they are over.
#[tokio::test(start_paused = true)]
async fn a_refusal_with_a_rounded_retry_after_is_not_kept() {
    struct Rounding(MemoryStore);

    impl Store for Rounding {
        fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
            let decided = self.0.acquire(request).known().unwrap();
            Answer::ready(decided.map(Verdict::rounded))
        }

        forward!(0: peek, reset);
    }

    let cache = DenyCache::new(Rounding(MemoryStore::new()));
    assert!(ask(&cache, request("key")).await.allowed);
    for _ in 0..3 {
        assert!(!ask(&cache, request("key")).await.cached);
    }
}

#[tokio::test(start_paused = true)]
async fn the_deny_cache_can_be_switched_off() {
    for cache in [
        DenyCache::new(Far::new()).with_capacity(0),
        DenyCache::new(Far::new()).with_staleness(Duration::ZERO),
    ] {
        for _ in 0..5 {
            assert!(!ask(&cache, request("key")).await.cached);
        }
    }
}

/// However the asking callers fare, no caller gets a refusal that is too old.
#[tokio::test(start_paused = true)]
async fn all_callers_ask_once_a_refusal_is_too_old() {
    let (far, cache) = refused("key").await;
    tokio::time::advance(SECOND - MICROSECOND).await;
    assert!(ask(&cache, request("key")).await.cached);
    tokio::time::advance(MICROSECOND).await;
    far.is(State::Late);
    for asked in 3..10 {
        assert_eq!(at_once(&cache, request("key")), None);
        assert!(waits(&mut cache.acquire(request("key"))));
        assert_eq!(far.asked(), asked);
    }
    far.is(State::Answers);
    assert!(!ask(&cache, request("key")).await.cached);
    assert!(ask(&cache, request("key")).await.cached);
}

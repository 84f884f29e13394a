//! Stores behind pointers, and a layer written outside of the crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::__private::{BuiltInStore, Health, Sealed};
use ratelimit_runtime::store::{Answer, Capabilities, Page, Request, Settled, StoreError, Verdict};
use ratelimit_runtime::{Algorithm, Key, Limit, MemoryStore, RateLimiter, Rule, Store};

#[tokio::test]
async fn pointers_to_stores_are_stores() {
    let boxed: Box<dyn Store> = Box::new(MemoryStore::new());
    let shared: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let leaked: &'static MemoryStore = Box::leak(Box::new(MemoryStore::new()));
    let limiters = [
        RateLimiter::with_store(boxed),
        RateLimiter::with_store(Arc::clone(&shared)),
        RateLimiter::builder().store(leaked).build().unwrap(),
    ];
    // Whatever the trait provides reaches the store behind the pointer, too.
    let rule = Rule::new("pointer", Limit::per_hour(1)).and(Limit::per_day(2)).with_block(Duration::from_secs(60));
    for limiter in limiters {
        let admission = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert!(limiter.refund(&rule, &Key::global(), &admission).await.unwrap());
        let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert!(limiter.acquire(&rule, &Key::global()).await.unwrap_err().decision().unwrap().is_blocked());
    }
    assert_eq!(shared.capabilities(), Capabilities::all());
}

/// A store as those of the crate are, of which nothing is as a trait would have it by default.
#[derive(Default)]
struct Peculiar {
    memory: MemoryStore,
    answers_within_ms: AtomicU64,
}

impl Store for Peculiar {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.memory.acquire(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.memory.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.memory.reset(request)
    }

    fn refund<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        self.memory.refund(request, ticket)
    }

    fn settle<'a>(&'a self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, Settled> {
        self.memory.settle(request, ticket, actual_cost)
    }

    fn block<'a>(&'a self, request: Request<'a>, duration: Duration) -> Answer<'a, ()> {
        self.memory.block(request, duration)
    }

    fn unblock<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.memory.unblock(request)
    }

    fn keys<'a>(&'a self, request: Request<'a>, from: Option<Vec<u8>>) -> Answer<'a, Page> {
        self.memory.keys(request, from)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl BuiltInStore for Peculiar {
    fn decides_together(&self, _: &[Request<'_>]) -> bool {
        true
    }

    fn acquire_all<'a>(&'a self, _: &'a [Request<'a>]) -> Answer<'a, Vec<Verdict>> {
        Answer::ready(Err(StoreError::unavailable("a layer's `acquire` is gone past")))
    }

    fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        if request.cost() > 7 { Err(StoreError::unsupported("at most 7")) } else { Ok(()) }
    }

    fn server(&self) -> &'static str {
        "peculiar:1"
    }

    fn health(&self, _: &Request<'_>) -> Health {
        Health::Slow
    }

    fn epoch(&self, _: &Request<'_>) -> u64 {
        7
    }

    fn answers_within(&self, timeout: Duration) {
        self.answers_within_ms.store(u64::try_from(timeout.as_millis()).unwrap(), Ordering::SeqCst);
    }

    fn ready(&self) -> Answer<'_, ()> {
        Answer::ready(Err(StoreError::misconfigured("never")))
    }

    fn ready_for<'a>(&'a self, _: Request<'a>) -> Answer<'a, ()> {
        Answer::ready(Err(StoreError::misconfigured("never for this key")))
    }
}

/// A layer that counts what it lets through, and forgets all that it may.
struct Counted<S> {
    store: S,
    decisions: AtomicU64,
}

impl<S: Store> Store for Counted<S> {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.decisions.fetch_add(1, Ordering::SeqCst);
        self.store.acquire(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.store.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.store.reset(request)
    }
}

fn counted() -> Arc<Counted<Peculiar>> {
    Arc::new(Counted { store: Peculiar::default(), decisions: AtomicU64::new(0) })
}

#[tokio::test]
async fn what_a_layer_forgets_is_answered_by_the_store_it_is_around() {
    let layer = counted();
    // Behind a pointer too, as a limiter has it.
    let store: Arc<dyn Store> = layer.clone();
    let limits = [Limit::per_hour(2)];
    let request = Request::new(b"layer:<a>", Algorithm::SlidingWindow, &limits);

    assert_eq!(store.capabilities(), Capabilities::all());
    let limiter = RateLimiter::builder().store(layer.clone()).timeout(Duration::from_millis(70)).build().unwrap();
    assert_eq!(layer.store.answers_within_ms.load(Ordering::SeqCst), 70);
    assert!(limiter.ready().await.unwrap_err().to_string().contains("never"));

    let charged = store.acquire(request).await.unwrap();
    assert!(store.refund(request, charged.ticket).await.unwrap());
    let reserved = store.acquire(request.reserving()).await.unwrap();
    assert!(store.settle(request.reserving(), reserved.ticket, 1).await.unwrap().was_open);
    let reserved = store.acquire(request.reserving()).await.unwrap();
    assert!(store.settle(request.reserving(), reserved.ticket, 0).await.unwrap().was_open);
    store.block(request, Duration::from_secs(60)).await.unwrap();
    assert!(store.peek(request).await.unwrap().blocked);
    assert!(store.unblock(request).await.unwrap());
    let mut from = None;
    let mut keys = Vec::new();
    loop {
        let page = store.keys(Request::new(b"layer:", Algorithm::SlidingWindow, &limits), from).await.unwrap();
        keys.extend(page.keys);
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(keys, [b"layer:<a>"]);
    assert_eq!(layer.decisions.load(Ordering::SeqCst), 3);
}

/// Without them a layer that forgets the shorter ways would be bypassed.
#[tokio::test]
async fn no_decision_goes_past_the_acquire_of_a_layer() {
    let layer = counted();
    let limiter = RateLimiter::with_store(layer.clone());
    for admitted in [true, true, false] {
        let rule = Rule::new("layer", Limit::per_hour(2));
        assert_eq!(limiter.acquire(&rule, &Key::global()).await.is_ok(), admitted);
    }
    assert_eq!(layer.decisions.load(Ordering::SeqCst), 3);
}

#[test]
fn times_of_a_verdict_are_rounded_up_and_end_refusals_alone() {
    let [short, second] = [Duration::from_nanos(1), Duration::from_secs(1)];
    let refused = Verdict::refused().with_retry_after(second + short).with_reset_after(short);
    assert_eq!((refused.retry_after_us, refused.reset_after_us), (1_000_001, 1));
    assert_eq!(Verdict::refused().with_retry_after(second).retry_after(), Some(second));
    assert_eq!(Verdict::admitted().with_retry_after(second).retry_after(), None);
    for never in [Verdict::refused(), Verdict::refused().with_retry_after(Duration::MAX)] {
        assert_eq!((never.allowed, never.retry_after()), (false, None));
    }
}

#[tokio::test]
#[should_panic(expected = "polled after completion")]
async fn an_answer_polled_again_panics_instead_of_hanging() {
    let mut answer = Answer::ready(Ok(()));
    let _ = (&mut answer).await;
    let _ = (&mut answer).await;
}

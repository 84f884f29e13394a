//! Callers that wait for a slot: in order, no longer than they said, no herd.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{alice, bob, strict};
use ratelimit_runtime::store::{Answer, Capabilities, Request, Verdict};
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RateLimiter, Rule, Store};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Counts what the store is asked.
struct Counting {
    inner: MemoryStore,
    calls: Arc<AtomicU64>,
}

impl Store for Counting {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.acquire(request)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.inner.reset(request)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with(Algorithm::FixedWindow, &[])
    }
}

fn counting() -> (RateLimiter, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let store = Counting { inner: MemoryStore::new(), calls: Arc::clone(&calls) };
    (strict().store(store).build().unwrap(), calls)
}

const SECOND: Duration = Duration::from_secs(1);

fn patient(max: u64, window: Duration, patience: Duration) -> Rule {
    Rule::new("patient", Limit::new(max, window)).with_wait(patience)
}

#[tokio::test(start_paused = true)]
async fn no_caller_waits_longer_than_promised() {
    let (limiter, _) = counting();
    let rule = patient(1, SECOND * 10, SECOND * 2);
    assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    let asked = Instant::now();
    let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
    assert_eq!(asked.elapsed(), Duration::ZERO, "a wait that cannot succeed is not begun");
    assert!(refused.retry_after().unwrap() > SECOND * 2);

    // Behind a caller with a longer wait, it ends all the same.
    let long = Arc::new(patient(1, SECOND * 10, SECOND * 60));
    let ahead = tokio::spawn({
        let (limiter, long) = (limiter.clone(), Arc::clone(&long));
        async move { limiter.acquire(&long, &alice()).await.map(drop) }
    });
    tokio::task::yield_now().await;
    let asked = Instant::now();
    assert!(limiter.acquire(&rule, &alice()).await.is_err());
    assert!(asked.elapsed() <= SECOND * 2 + Duration::from_millis(2), "{:?}", asked.elapsed());
    ahead.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiting_callers_do_not_ask_at_once() {
    // Ten slots come free at once, or each at a microsecond of its own.
    for (algorithm, moments) in [(Algorithm::FixedWindow, 1_000 / 10), (Algorithm::SlidingWindow, 1_000)] {
        let (limiter, calls) = counting();
        let rule = Arc::new(patient(10, SECOND, SECOND * 3600).with_algorithm(algorithm));
        let mut waiting = JoinSet::new();
        for _ in 0..1_000 {
            let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
            waiting.spawn(async move { limiter.acquire(&rule, &alice()).await.is_ok() });
        }
        assert!(waiting.join_all().await.into_iter().all(|passed| passed));
        // One admission for each; each refusal was waited for by the first in line alone. All who
        // asked before the line was there asked once more.
        let asked = calls.load(Ordering::SeqCst);
        assert!(asked <= 1_000 + moments + 20, "{asked} questions for 1,000 calls by {algorithm}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_waiters_is_bounded() {
    let (limiter, _) = counting();
    let rule = Arc::new(patient(1, SECOND * 3600, SECOND * 7200));
    assert!(limiter.acquire(&rule, &alice()).await.is_ok());
    let mut waiting = JoinSet::new();
    for _ in 0..10_100_u64 {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        waiting.spawn(async move { limiter.acquire(&rule, &alice()).await.is_ok() });
    }
    let start = Instant::now();
    let mut refused = 0;
    for _ in 0..100 {
        refused += u64::from(!waiting.join_next().await.unwrap().unwrap());
    }
    assert_eq!((refused, start.elapsed()), (100, Duration::ZERO), "those beyond 10,000 are refused at once");
    assert_eq!(waiting.len(), 10_000);
}

/// A slot that comes free belongs to those who wait, not to the one for whom there is no room in
/// their queue.
#[tokio::test(start_paused = true)]
async fn a_caller_for_whom_the_queue_has_no_room_is_not_admitted_ahead_of_it() {
    let (limiter, _) = counting();
    let rule = Arc::new(patient(1, SECOND * 3600, SECOND * 7200));
    let _ = limiter.acquire(&rule, &alice()).await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..10_000_u64 {
        let (limiter, rule) = (limiter.clone(), Arc::clone(&rule));
        waiting.spawn(async move { limiter.acquire(&rule, &alice()).await.is_ok() });
    }
    tokio::time::sleep(SECOND).await;
    assert!(limiter.reset(&rule, &alice()).await.unwrap());
    let asked = Instant::now();
    let refused = limiter.acquire(&rule, &alice()).await.unwrap_err();
    assert_eq!(asked.elapsed(), Duration::ZERO);
    // When the first of them asks again.
    let wait = refused.retry_after().unwrap();
    assert!(wait > SECOND * 3590 && wait <= SECOND * 3600, "{wait:?}");
    assert!(waiting.join_next().await.unwrap().unwrap(), "the first in the queue has the slot");
    assert!(limiter.acquire(&rule, &bob()).await.is_ok(), "another key has no queue");
}

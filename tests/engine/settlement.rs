//! Reservations are settled once, and by the call that made them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Request, Settled, StoreError, Verdict};
use ratelimit_runtime::{Key, Limit, MemoryStore, RateLimitError, RateLimiter, Rule, Store, rate_limit};

/// A store on the other end of a network: every answer is for later, and counted once it is on its
/// way.
#[derive(Clone, Default)]
struct Remote {
    inner: Arc<MemoryStore>,
    released: Arc<AtomicU64>,
    committed: Arc<AtomicU64>,
    /// So many answers to a release are lost on their way back.
    loses: Arc<AtomicU64>,
}

impl Store for Remote {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move { self.inner.acquire(request).await })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        Answer::later(async move { self.inner.peek(request).await })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        Answer::later(async move { self.inner.reset(request).await })
    }

    fn settle<'a>(&'a self, request: Request<'a>, ticket: u64, actual_cost: u64) -> Answer<'a, Settled> {
        Answer::later(async move {
            let settled = self.inner.settle(request, ticket, actual_cost).await;
            if actual_cost > 0 {
                self.committed.fetch_add(1, Ordering::SeqCst);
                return settled;
            }
            self.released.fetch_add(1, Ordering::SeqCst);
            let fewer = |left: u64| left.checked_sub(1);
            match self.loses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer) {
                Ok(_) => Err(StoreError::unavailable("the connection has ended").lost()),
                Err(_) => settled,
            }
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

#[rate_limit(limiter = limiter, window = "1h", max = 5, count = "err")]
async fn guess(limiter: &RateLimiter, right: bool) -> Result<(), RateLimitError> {
    if right { Ok(()) } else { Err(std::future::ready(limiter).await.never()) }
}

trait Never {
    fn never(&self) -> RateLimitError;
}

impl Never for RateLimiter {
    fn never(&self) -> RateLimitError {
        RateLimitError::Unavailable(StoreError::unavailable("wrong"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_settled_once() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    for _ in 0..20 {
        guess(&limiter, true).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..3 {
        assert!(guess(&limiter, false).await.is_err());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(store.released.load(Ordering::SeqCst), 20);
    assert_eq!(store.committed.load(Ordering::SeqCst), 3);
}

#[rate_limit(limiter = limiter, window = "1h", max = 5, count = "err", algorithm = "token_bucket")]
async fn guess_by_bucket(limiter: &RateLimiter, right: bool) -> Result<(), RateLimitError> {
    if right { Ok(()) } else { Err(std::future::ready(limiter).await.never()) }
}

/// An entry of a log cannot be given back twice, and a sum could.
#[tokio::test]
async fn only_what_names_an_entry_is_settled_again_after_an_answer_was_lost() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    store.loses.store(2, Ordering::SeqCst);
    guess(&limiter, true).await.unwrap();
    assert!(eventually(|| store.released.load(Ordering::SeqCst) == 3).await, "once, and twice again");

    store.loses.store(1, Ordering::SeqCst);
    guess_by_bucket(&limiter, true).await.unwrap();
    assert!(eventually(|| store.loses.load(Ordering::SeqCst) == 0).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(store.released.load(Ordering::SeqCst), 4);
}

/// Whether it came, while other tasks went on.
async fn eventually(done: impl Fn() -> bool) -> bool {
    for _ in 0..2_000 {
        if done() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

/// A reservation that is dropped where there is no runtime is settled on the one that it came from.
#[test]
fn a_reservation_that_is_dropped_on_a_thread_without_a_runtime_is_settled_where_it_came_from() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("dropped", Limit::per_hour(5)).with_cost(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let [first, second] = [(); 2].map(|()| runtime.block_on(limiter.reserve(&rule, &Key::global())).unwrap());
    std::thread::spawn(move || drop(first)).join().unwrap();
    assert!(comes_about(|| store.committed.load(Ordering::SeqCst) == 1), "it was not committed");
    std::thread::spawn(move || second.release()).join().unwrap();
    assert!(comes_about(|| store.released.load(Ordering::SeqCst) == 1), "it was not released");
    let left = runtime.block_on(limiter.peek(&rule, &Key::global())).unwrap().remaining();
    assert_eq!((left, store.committed.load(Ordering::SeqCst)), (3, 1));
}

/// A reservation that is dropped on another runtime is settled there; one whose runtime has ended,
/// and that is dropped where there is none, stays as it is.
#[test]
fn a_reservation_whose_runtime_has_ended_is_settled_by_another_or_not_at_all() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("ended", Limit::per_hour(5));
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ending = runtime();
    let [first, second] = [(); 2].map(|()| ending.block_on(limiter.reserve(&rule, &Key::global())).unwrap());
    drop(ending);
    let other = runtime();
    other.block_on(async move { first.release() });
    assert!(comes_about(|| store.released.load(Ordering::SeqCst) == 1), "it was not released");
    second.release();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(store.released.load(Ordering::SeqCst), 1);
    let left = other.block_on(limiter.peek(&rule, &Key::global())).unwrap().remaining();
    assert_eq!(left, 4, "it counts until it expires");
}

/// Whether it came, on a thread that drives no runtime.
fn comes_about(done: impl Fn() -> bool) -> bool {
    (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        done()
    })
}

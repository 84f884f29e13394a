//! What becomes of reservations: once, and by whoever made them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::store::{Answer, Capabilities, Request, Verdict};
use ratelimit_runtime::{MemoryStore, RateLimitError, RateLimiter, Store, rate_limit};

/// A store on the other end of a network: every answer is for later, and counted once it is on its way.
#[derive(Clone)]
struct Remote {
    inner: Arc<MemoryStore>,
    released: Arc<AtomicU64>,
    committed: Arc<AtomicU64>,
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

    fn commit<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::later(async move {
            self.committed.fetch_add(1, Ordering::SeqCst);
            self.inner.commit(request, ticket).await
        })
    }

    fn release<'a>(&'a self, request: Request<'a>, ticket: u64) -> Answer<'a, bool> {
        Answer::later(async move {
            self.released.fetch_add(1, Ordering::SeqCst);
            self.inner.release(request, ticket).await
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
        RateLimitError::Unavailable(ratelimit_runtime::store::StoreError::unavailable("wrong"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_settled_once() {
    let store = Remote { inner: Arc::default(), released: Arc::default(), committed: Arc::default() };
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

//! Stores behind pointers, and a layer written outside of the crate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ratelimit_runtime::store::{Answer, Capabilities, Health, OwnedRequest, Request, StoreError, Verdict};
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

/// A layer that remembers refusals: what a deny cache does, in its plainest form.
struct Remembering<S> {
    inner: S,
    refused: Mutex<HashMap<Vec<u8>, (OwnedRequest, Verdict, Instant)>>,
}

impl<S: Store> Remembering<S> {
    fn remember(&self, request: &OwnedRequest, verdict: &Verdict) {
        if !verdict.allowed {
            let until = Instant::now() + verdict.retry_after();
            let refusal = (request.clone(), *verdict, until);
            self.refused.lock().unwrap().insert(request.as_request().key().to_vec(), refusal);
        }
    }

    fn recall(&self, request: &Request<'_>) -> Option<Verdict> {
        let refused = self.refused.lock().unwrap();
        let (asked, verdict, until) = refused.get(request.key())?;
        let same = asked.as_request().cost() == request.cost() && asked.as_request().limits() == request.limits();
        (same && Instant::now() < *until).then_some(*verdict)
    }
}

impl<S: Store> Store for Remembering<S> {
    fn acquire_now(&self, request: Request<'_>) -> Option<Result<Verdict, StoreError>> {
        self.recall(&request).map(Ok)
    }

    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        if let Some(verdict) = self.recall(&request) {
            return Answer::ready(Ok(verdict));
        }
        let owned = request.into_owned();
        match self.inner.acquire(request).known() {
            Ok(answer) => {
                if let Ok(verdict) = &answer {
                    self.remember(&owned, verdict);
                }
                Answer::ready(answer)
            }
            Err(later) => Answer::later(async move {
                let verdict = later.await?;
                self.remember(&owned, &verdict);
                Ok(verdict)
            }),
        }
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Verdict> {
        self.inner.peek(request)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, bool> {
        self.refused.lock().unwrap().remove(request.key());
        self.inner.reset(request)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::none().with(Algorithm::SlidingWindow, &[])
    }

    fn health(&self, request: &Request<'_>) -> Health {
        self.inner.health(request)
    }
}

#[tokio::test]
async fn a_layer_can_be_written_outside_of_the_crate() {
    let store = ratelimit_runtime::testkit::FaultyStore::new(MemoryStore::new());
    let layered = Remembering { inner: store.clone(), refused: Mutex::default() };
    let limiter = RateLimiter::with_store(layered);
    let rule = Rule::new("layer", Limit::per_hour(1));
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
    for _ in 0..10 {
        assert!(limiter.acquire(&rule, &Key::global()).await.is_err());
    }
    assert_eq!(store.calls(), 2, "a refusal that is known is not asked for");
    assert!(limiter.reset(&rule, &Key::global()).await.unwrap());
    let _ = limiter.acquire(&rule, &Key::global()).await.unwrap();
}

//! Reservations are settled once, and by the call that made them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use ratelimit_runtime::__private::{BuiltInStore, Health, PermitRequest, PermitVerdict, Sealed};
use ratelimit_runtime::store::{
    Answer, Capabilities, Request, Settled, StoreError, StoreErrorKind, Verdict,
};
use ratelimit_runtime::testkit::FaultyStore;
use ratelimit_runtime::{
    Algorithm, Key, Limit, MemoryStore, RateLimitError, RateLimiter, Rule, Store, rate_limit,
};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::support::layer::forward;

/// A store on the other end of a network: every answer is for later, except that settlements may be
/// answered at once, and is counted once it is on its way.
#[derive(Clone, Default)]
struct Remote {
    inner: Arc<MemoryStore>,
    released: Arc<AtomicU64>,
    committed: Arc<AtomicU64>,
    /// So many answers to a settlement are lost on their way back.
    loses: Arc<AtomicU64>,
    is_at_once: bool,
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

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        let settle = move || {
            let settled = self.inner.settle(request, ticket, actual_cost);
            let settled = settled.now_or_never().unwrap();
            let counter = if actual_cost > 0 {
                &self.committed
            } else {
                &self.released
            };
            counter.fetch_add(1, Ordering::SeqCst);
            let fewer = |left: u64| left.checked_sub(1);
            match self
                .loses
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
            {
                Ok(_) => Err(StoreError::unavailable("the connection has ended").lost()),
                Err(_) => settled,
            }
        };
        if self.is_at_once {
            Answer::ready(settle())
        } else {
            Answer::later(async move { settle() })
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }
}

#[rate_limit(limiter = limiter, window = "1h", max = 5, count = "err")]
async fn guess(limiter: &RateLimiter, right: bool) -> Result<(), RateLimitError> {
    tokio::task::yield_now().await;
    if right {
        Ok(())
    } else {
        Err(RateLimitError::Unavailable(StoreError::unavailable(
            "wrong",
        )))
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

/// An entry of a log cannot be settled twice; a sum could be charged or given back twice.
#[tokio::test(start_paused = true)]
async fn a_settlement_whose_answer_was_lost_is_sent_again_only_where_that_does_nothing() {
    for (algorithm, sent, is_at_once) in [
        (Algorithm::SlidingWindow, 3, false),
        (Algorithm::TokenBucket, 1, false),
        (Algorithm::SlidingWindow, 3, true),
        (Algorithm::TokenBucket, 1, true),
    ] {
        let store = Remote {
            is_at_once,
            ..Remote::default()
        };
        let limiter = RateLimiter::with_store(store.clone());
        let rule = Rule::new("lost", Limit::per_hour(100))
            .with_algorithm(algorithm)
            .with_cost(10);
        for (actual_cost, left) in [(30, 70), (0, 70)] {
            store.loses.store(2, Ordering::SeqCst);
            limiter
                .reserve(&rule, &Key::global())
                .await
                .unwrap()
                .commit(actual_cost);
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(
                limiter
                    .peek(&rule, &Key::global())
                    .await
                    .unwrap()
                    .remaining(),
                left,
                "{algorithm}"
            );
        }
        let settled =
            [&store.committed, &store.released].map(|counter| counter.load(Ordering::SeqCst));
        assert_eq!(settled, [sent; 2], "{algorithm}");
    }
}

/// Full is an outage as others are: a store may say so at once.
#[tokio::test(start_paused = true)]
async fn what_ends_while_the_store_is_full_is_settled_once_there_is_room() {
    for kind in [
        StoreErrorKind::Full,
        StoreErrorKind::TimedOut,
        StoreErrorKind::Unavailable,
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let limiter = RateLimiter::with_store(store.clone());
        let rule = Rule::new("full", Limit::per_hour(100)).with_cost(10);
        let reservation = limiter.reserve(&rule, &Key::global()).await.unwrap();
        store.fail_with(kind);
        reservation.commit(1);
        tokio::time::sleep(Duration::from_secs(10)).await;
        store.heal();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let seen = limiter.peek(&rule, &Key::global()).await.unwrap();
        assert_eq!(seen.remaining(), 99, "{kind:?}");
    }
}

/// A memory of several servers, of which that of the keys with `away` may be away.
#[derive(Clone)]
struct Servers {
    memory: Arc<MemoryStore>,
    is_away: Arc<watch::Sender<bool>>,
}

impl Servers {
    fn is_away(&self, request: &Request<'_>) -> bool {
        *self.is_away.borrow() && request.key().windows(4).any(|part| part == b"away")
    }
}

impl Store for Servers {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.memory)
    }

    forward!(memory: acquire, peek, reset);

    fn settle<'a>(
        &'a self,
        request: Request<'a>,
        ticket: u64,
        actual_cost: u64,
    ) -> Answer<'a, Settled> {
        Answer::later(async move {
            tokio::task::yield_now().await;
            if self.is_away(&request) {
                return Err(StoreError::unavailable("the server is away"));
            }
            self.memory.settle(request, ticket, actual_cost).await
        })
    }

    fn built_in(&self, _: Sealed) -> Option<&dyn BuiltInStore> {
        Some(self)
    }
}

impl BuiltInStore for Servers {
    fn acquire_all<'a>(
        &'a self,
        permit: Option<PermitRequest>,
        requests: &'a [Request<'a>],
    ) -> Answer<'a, PermitVerdict> {
        self.memory.acquire_all(permit, requests)
    }

    fn health(&self, request: &Request<'_>) -> Health {
        if self.is_away(request) {
            Health::Down
        } else {
            Health::Up
        }
    }

    fn ready_for<'a>(&'a self, part: Option<Request<'a>>) -> Answer<'a, ()> {
        Answer::later(async move {
            if part.is_some_and(|request| self.is_away(&request)) {
                let mut is_away = self.is_away.subscribe();
                let _ = is_away.wait_for(|is_away| !is_away).await;
            }
            Ok(())
        })
    }
}

/// As many settlements as there may be wait for a server, and one more is given up.
#[tokio::test(start_paused = true)]
async fn settlements_for_a_server_that_is_away_take_no_room_from_those_for_others() {
    const MOST: u64 = 10_000;
    let servers = Servers {
        memory: Arc::new(MemoryStore::new()),
        is_away: Arc::new(watch::Sender::new(false)),
    };
    let limiter = RateLimiter::with_store(servers.clone());
    let many = Rule::new("away", Limit::per_hour(MOST + 1)).with_algorithm(Algorithm::TokenBucket);
    let key = Key::global();
    let mut open = Vec::new();
    for _ in 0..=MOST {
        open.push(limiter.reserve(&many, &key).await.unwrap());
    }
    servers.is_away.send_replace(true);
    for reservation in open {
        reservation.release();
        tokio::task::yield_now().await;
    }

    let login = Rule::new("login", Limit::per_hour(5));
    for _ in 0..20 {
        limiter.reserve(&login, &key).await.unwrap().release();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let start = Instant::now();
    let users = [Key::of("alice"), Key::of("bob")];
    let stack = limiter
        .acquire_all(users.iter().map(|user| (&login, user)))
        .await;
    assert!(
        stack
            .unwrap()
            .iter()
            .all(|decision| !decision.is_degraded())
    );
    assert_eq!(start.elapsed(), Duration::ZERO);

    servers.is_away.send_replace(false);
    limiter
        .settled_within(Duration::from_secs(10))
        .await
        .unwrap();
    let left = limiter.peek(&many, &key).await.unwrap().remaining();
    assert_eq!(left, MOST);
}

#[rate_limit(
    limiter = limiter, name = "guess:slow", window = "1s", max = 1, burst = 3, count = "err",
    algorithm = "token_bucket"
)]
async fn guess_slowly(limiter: &RateLimiter) -> Result<(), RateLimitError> {
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    Ok(())
}

/// A reservation of a bucket counts for up to twice the time to refill, that of a sliding counter
/// for up to two windows.
#[tokio::test(start_paused = true)]
async fn what_is_released_after_a_window_no_longer_counts() {
    for store in [false, true].map(|is_remote| -> Box<dyn Store> {
        if is_remote {
            Box::new(Remote::default())
        } else {
            Box::new(MemoryStore::new())
        }
    }) {
        let limiter = RateLimiter::with_store(store);
        let bucket = Limit::new(1, Duration::from_secs(1)).with_burst(3);
        let slow = Rule::new("guess:slow", bucket).with_algorithm(Algorithm::TokenBucket);
        for _ in 0..3 {
            guess_slowly(&limiter).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let left = limiter.peek(&slow, &Key::global()).await.unwrap();
        assert_eq!(left.remaining(), 3);

        // An estimate of a bucket that refills in ten windows.
        let bucket = Limit::per_minute(10).with_burst(100);
        let tokens = Rule::new("tokens", bucket)
            .with_algorithm(Algorithm::TokenBucket)
            .with_cost(100);
        let reserved = limiter.reserve(&tokens, &Key::global()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(70)).await;
        reserved.release();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let left = limiter.peek(&tokens, &Key::global()).await.unwrap();
        assert_eq!(left.remaining(), 100);
    }
}

/// A store forgets a reservation that has left its window: a second commit would be charged again.
#[tokio::test]
async fn a_commit_that_is_late_is_sent_once() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("late", Limit::new(100, Duration::from_millis(100))).with_cost(10);
    let reservation = limiter.reserve(&rule, &Key::global()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    store.loses.store(1, Ordering::SeqCst);
    reservation.commit(30);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(store.committed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_reservation_that_is_dropped_without_a_runtime_is_settled_on_its_own() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("dropped", Limit::per_hour(5)).with_cost(2);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let [first, second] = [(); 2].map(|()| {
        runtime
            .block_on(limiter.reserve(&rule, &Key::global()))
            .unwrap()
    });
    std::thread::spawn(move || drop(first)).join().unwrap();
    assert!(
        comes_about(|| store.committed.load(Ordering::SeqCst) == 1),
        "it was not committed"
    );
    std::thread::spawn(move || second.release()).join().unwrap();
    assert!(
        comes_about(|| store.released.load(Ordering::SeqCst) == 1),
        "it was not released"
    );
    let left = runtime
        .block_on(limiter.peek(&rule, &Key::global()))
        .unwrap()
        .remaining();
    assert_eq!((left, store.committed.load(Ordering::SeqCst)), (3, 1));
}

#[test]
fn a_reservation_whose_runtime_has_ended_is_settled_by_another_or_not_at_all() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("ended", Limit::per_hour(5));
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let ending = runtime();
    let [first, second] = [(); 2].map(|()| {
        ending
            .block_on(limiter.reserve(&rule, &Key::global()))
            .unwrap()
    });
    drop(ending);
    let other = runtime();
    other.block_on(async move { first.release() });
    assert!(
        comes_about(|| store.released.load(Ordering::SeqCst) == 1),
        "it was not released"
    );
    second.release();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(store.released.load(Ordering::SeqCst), 1);
    let left = other
        .block_on(limiter.peek(&rule, &Key::global()))
        .unwrap()
        .remaining();
    assert_eq!(left, 4, "it counts until it expires");
}

/// As in a job that has a runtime of its own for some steps, which may be one without timers.
#[test]
fn a_reservation_that_is_released_on_a_runtime_that_ends_is_settled_on_its_own() {
    let store = Remote::default();
    let limiter = RateLimiter::with_store(store.clone());
    let rule = Rule::new("job", Limit::per_hour(5));
    let runtime = tokio::runtime::Builder::new_current_thread;
    let main = runtime().enable_all().build().unwrap();
    let settled = || limiter.settled_within(Duration::from_secs(10));
    for (mut job, has_timers) in [(runtime(), false), (runtime(), true)] {
        let reservation = main.block_on(limiter.reserve(&rule, &Key::global()));
        let reservation = reservation.unwrap();
        if has_timers {
            job.enable_all();
        }
        let job = job.build().unwrap();
        job.block_on(async move { reservation.release() });
        if !has_timers {
            let error = job.block_on(settled()).unwrap_err();
            assert!(error.to_string().contains("`enable_time`"), "{error}");
        }
        drop(job);
        main.block_on(settled()).unwrap();
    }
    assert_eq!(store.released.load(Ordering::SeqCst), 2);
    let left = main.block_on(limiter.peek(&rule, &Key::global()));
    assert_eq!(left.unwrap().remaining(), 5);
}

/// Waits on a thread that drives no runtime; says whether it came about.
fn comes_about(done: impl Fn() -> bool) -> bool {
    (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        done()
    })
}

/// A store whose settlements panic.
struct Panicking(MemoryStore);

impl Store for Panicking {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    forward!(0: acquire, peek, reset);

    fn settle<'a>(&'a self, _: Request<'a>, _: u64, _: u64) -> Answer<'a, Settled> {
        panic!("the store panics")
    }
}

#[rate_limit(limiter = limiter, window = "1h", max = 5, count = "err")]
#[rate_limit(limiter = limiter, window = "1d", max = 5, count = "err")]
async fn panics(limiter: &RateLimiter, itself: bool) -> Result<(), RateLimitError> {
    assert!(!itself, "the body panics");
    Ok(())
}

/// A second panic, while the first one drops what the call holds, would abort the process.
#[tokio::test]
async fn a_store_that_panics_when_a_call_ends_does_not_end_the_process() {
    let limiter = RateLimiter::with_store(Panicking(MemoryStore::new()));
    for itself in [true, false] {
        let call = AssertUnwindSafe(panics(&limiter, itself)).catch_unwind();
        let why = call.await.unwrap_err();
        let why = why.downcast_ref::<&str>().unwrap();
        assert_eq!(why.contains("body"), itself, "{why}");
    }
}

//! Replies that come twice, not at all, in another order, or empty: no caller is told what was said
//! to another one, or nobody.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{MINUTE, PATIENCE};
use crate::support::proxy::{Mischief, Proxy};
use crate::support::redis::RedisServer;
use crate::support::unique;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreError};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const CALLERS: u64 = 48;
/// How long a call may take. Far above what it takes.
const TIMEOUT: Duration = Duration::from_millis(400);
/// How often replies have to be mistreated until a case is over.
const ENOUGH: u64 = 8;
/// And how many answers there have to be.
const ANSWERS: u64 = 200;
const MISCHIEFS: [Mischief; 4] = [
    Mischief::Double,
    Mischief::Lose,
    Mischief::Swap,
    Mischief::Empty,
];

/// What callers have seen.
#[derive(Default)]
struct Seen {
    stopped: AtomicBool,
    answers: AtomicU64,
    wrong: AtomicU64,
}

/// A caller with a private key, so it can predict every reply.
struct Caller {
    store: Arc<RedisStore>,
    seen: Arc<Seen>,
    algorithm: Algorithm,
    key: String,
    limit: Limit,
    used: u64,
}

impl Caller {
    fn request(&self) -> Request<'_> {
        Request::new(
            self.key.as_bytes(),
            self.algorithm,
            std::slice::from_ref(&self.limit),
        )
    }

    async fn ask<T>(&self, ask: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
        // An error of a whole call has no number, so that it may be another's: it neither admits
        // nor refuses.
        if let Ok(Ok(answer)) = timeout(TIMEOUT, ask).await {
            self.seen.answers.fetch_add(1, Ordering::Relaxed);
            return Some(answer);
        }
        sleep(Duration::from_millis(5)).await;
        None
    }

    fn check(&self, is_right: bool, told: &dyn std::fmt::Debug) {
        if !is_right {
            eprintln!(
                "{} of {} used {}: {told:?}",
                self.key,
                self.limit.max(),
                self.used
            );
            self.seen.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Begins anew: `None` where that failed.
    async fn reset(&mut self) -> Option<bool> {
        let was_there = self.ask(self.store.reset(self.request())).await?;
        self.used = 0;
        Some(was_there)
    }

    async fn acquire(&mut self) -> Option<u64> {
        let verdict = self.ask(self.store.acquire(self.request())).await?;
        let fits = self.used < self.limit.max();
        self.used += u64::from(fits);
        self.check(
            verdict.allowed == fits && verdict.remaining == self.limit.max() - self.used,
            &verdict,
        );
        Some(verdict.ticket)
    }

    /// One of each operation. `None` where one failed: it may have been done or not.
    async fn round(&mut self) -> Option<()> {
        self.acquire().await?;
        let ticket = self.acquire().await?;
        let verdict = self.ask(self.store.peek(self.request())).await?;
        self.check(verdict.remaining == self.limit.max() - self.used, &verdict);
        if self.used < self.limit.max() {
            let given_back = self.ask(self.store.refund(self.request(), ticket)).await?;
            self.check(given_back, &"a refund of nothing");
            self.used -= 1;
        }
        for _ in 0..5 {
            self.acquire().await?;
        }
        let was_there = self.reset().await?;
        self.check(was_there, &"a reset of nothing");
        let is_there = self.reset().await?;
        self.check(!is_there, &"a reset of something");
        Some(())
    }

    async fn go_on(mut self) {
        while !self.seen.stopped.load(Ordering::Relaxed) {
            if self.round().await.is_none() {
                while self.reset().await.is_none() && !self.seen.stopped.load(Ordering::Relaxed) {}
            }
        }
    }
}

/// A caller whose key holds a list: each of its questions is an error.
async fn on_a_list(store: Arc<RedisStore>, seen: Arc<Seen>, key: String) {
    let limits = [Limit::per_minute(1)];
    while !seen.stopped.load(Ordering::Relaxed) {
        let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
        if let Ok(Ok(verdict)) = timeout(TIMEOUT, store.acquire(request)).await {
            eprintln!("{key}: {verdict:?}");
            seen.wrong.fetch_add(1, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(3)).await;
    }
}

/// Lets callers ask until `is_enough`; says how many answers there were, and how many that were for
/// others.
async fn told(server: &RedisServer, store: RedisStore, is_enough: impl Fn() -> bool) -> (u64, u64) {
    let (store, seen) = (Arc::new(store.deny_cache(false)), Arc::new(Seen::default()));
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
    let mut callers = JoinSet::new();
    for index in 0..CALLERS {
        let (store, seen) = (Arc::clone(&store), Arc::clone(&seen));
        let key = unique(&format!("caller{index}"));
        if index % 12 == 0 {
            server.cli(&["RPUSH", &key, "x"]);
            callers.spawn(on_a_list(store, seen, key));
            continue;
        }
        let algorithm = if index % 2 == 0 {
            Algorithm::SlidingWindow
        } else {
            Algorithm::FixedWindow
        };
        // Some are refused now and then. All that a window can be told differs.
        let max = if index % 3 == 0 { 3 } else { 100 * index };
        let caller = Caller {
            store,
            seen,
            algorithm,
            key,
            limit: Limit::new(max, MINUTE * 60),
            used: 0,
        };
        callers.spawn(caller.go_on());
    }
    let start = Instant::now();
    let answers = || seen.answers.load(Ordering::Relaxed);
    while !is_enough() || answers() < ANSWERS {
        assert!(start.elapsed() < PATIENCE * 6, "it does not go on");
        sleep(Duration::from_millis(10)).await;
    }
    seen.stopped.store(true, Ordering::Relaxed);
    callers.join_all().await;
    (answers(), seen.wrong.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_damaged_reply_answers_no_other_caller() {
    let server = RedisServer::start();
    for mischief in MISCHIEFS {
        let proxy = Proxy::start(server.port()).await;
        proxy.mistreat(Some(mischief));
        let store = proxy.store();
        let (answers, wrong) = told(&server, store, || proxy.mistreated() >= ENOUGH).await;
        assert_eq!(
            wrong, 0,
            "{mischief:?}: of {answers} answers, so many were for others"
        );
    }
}

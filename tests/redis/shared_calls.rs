//! Peeks and changes share calls too: each is answered as if it had come alone, and on one key in
//! the order in which they came.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::MINUTE;
use crate::support::redis::RedisServer;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;

pub(super) const CALLERS: usize = 512;

pub(super) async fn on(server: &RedisServer) -> Arc<RedisStore> {
    let store = Arc::new(RedisStore::new(&server.url()).unwrap().deny_cache(false));
    store.ready().await.unwrap();
    store
}

/// A question that waits: whether it was allowed, or changed something, and what is left.
type Asked<'a> = Pin<Box<dyn Future<Output = (bool, u64)> + 'a>>;

/// Some of the logs have been reserved in, and each has been used more or less.
#[tokio::test]
async fn admissions_to_many_logs_at_once_are_told_what_remains_of_their_own() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(9, MINUTE)];
    let key = |index: usize| format!("log{index}");
    let used = |index: usize| index as u64 / 2 % 6;
    for index in 0..CALLERS {
        let key = key(index);
        let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
        if index % 2 == 0 {
            let reserved = store.acquire(request.reserving()).await.unwrap().ticket;
            assert!(store.settle(request.reserving(), reserved, 0).await.unwrap().was_open);
        }
        for _ in 0..used(index) {
            assert!(store.acquire(request).await.unwrap().allowed);
        }
    }
    for round in 0..3 {
        let mut running = JoinSet::new();
        for index in 0..CALLERS {
            let (store, key) = (Arc::clone(&store), key(index));
            running.spawn(async move {
                let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
                (index, store.acquire(request).await.unwrap())
            });
        }
        for (index, verdict) in running.join_all().await {
            let remaining = 8 - used(index) - round;
            assert!(verdict.allowed);
            assert_eq!((index, verdict.remaining), (index, remaining), "round {round}");
        }
    }
}

/// All are there before the first is answered.
#[tokio::test]
async fn questions_on_a_key_are_decided_in_their_order() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(10, MINUTE)];
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let (noise, key) = (format!("{algorithm}noise"), format!("{algorithm}key"));
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let reserved = store.acquire(request.reserving()).await.unwrap().ticket;
        let charged = store.acquire(request).await.unwrap().ticket;

        // The next caller waits until the first is answered.
        let told = |verdict: Verdict| (verdict.allowed, verdict.remaining);
        let peek = || async { told(store.peek(request).await.unwrap()) };
        let other = Request::new(noise.as_bytes(), algorithm, &limits);
        let mut asked: Vec<Asked<'_>> = vec![
            Box::pin(async { told(store.acquire(other).await.unwrap()) }),
            Box::pin(peek()),
            Box::pin(async { (store.settle(request.reserving(), reserved, 0).await.unwrap().was_open, 0) }),
            Box::pin(peek()),
            Box::pin(async { (store.refund(request, charged).await.unwrap(), 0) }),
            Box::pin(peek()),
            Box::pin(peek()),
            Box::pin(async { told(store.acquire(request).await.unwrap()) }),
            Box::pin(peek()),
            Box::pin(async { (store.block(request, MINUTE).await.is_ok(), 0) }),
            Box::pin(peek()),
            Box::pin(async { (store.unblock(request).await.unwrap(), 0) }),
            Box::pin(async { told(store.acquire(request).await.unwrap()) }),
            Box::pin(peek()),
        ];
        for answer in &mut asked {
            assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let mut seen = Vec::new();
        for answer in asked {
            seen.push(answer.await);
        }
        let done = (true, 0);
        let expected = [
            (true, 9),
            (true, 8),
            done,
            (true, 9),
            done,
            (true, 10),
            (true, 10),
            (true, 9),
            (true, 9),
            done,
            (false, 0),
            done,
            (true, 8),
            (true, 8),
        ];
        assert_eq!(seen, expected, "{algorithm}");
    }
}

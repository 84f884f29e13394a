//! Peeks and changes share calls too: few are sent, each is answered as if it had come alone, and
//! on one key in the order in which they came.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::{MINUTE, number_of};
use crate::support::redis::RedisServer;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;

pub(super) const CALLERS: usize = 512;

/// How many calls of scripts the server was sent.
pub(super) fn calls(server: &RedisServer) -> i64 {
    let of = |command: &str| {
        let stats = server.info("commandstats", &format!("cmdstat_{command}"));
        stats.strip_prefix("calls=").and_then(|stats| stats.split(',').next()).map_or(0, number_of)
    };
    of("evalsha") + of("eval")
}

pub(super) async fn on(server: &RedisServer) -> Arc<RedisStore> {
    let store = Arc::new(RedisStore::new(&server.url()).unwrap().deny_cache(false));
    store.ready().await.unwrap();
    store
}

/// A question that waits: whether it was allowed, or changed something, and what is left.
type Asked<'a> = Pin<Box<dyn Future<Output = (bool, u64)> + 'a>>;

#[tokio::test]
async fn peeks_that_come_at_once_share_calls() {
    let server = RedisServer::start();
    let store = on(&server).await;
    for algorithm in Algorithm::ALL {
        for (keys, most) in [(CALLERS, 32), (1, 8)] {
            let before = calls(&server);
            let mut running = JoinSet::new();
            for index in 0..CALLERS {
                let store = Arc::clone(&store);
                running.spawn(async move {
                    let (key, limits) = (format!("{algorithm}{}", index % keys), [Limit::new(7, MINUTE)]);
                    store.peek(Request::new(key.as_bytes(), *algorithm, &limits)).await.unwrap().remaining
                });
            }
            assert!(running.join_all().await.into_iter().all(|remaining| remaining == 7));
            let sent = calls(&server) - before;
            assert!(sent <= most, "{algorithm}: {sent} calls for {CALLERS} peeks on {keys} keys");
        }
    }
}

/// Some of the logs are rings, others sorted sets, and each has been used more or less.
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
            // A reservation makes it a ring.
            let reserved = store.acquire(request.reserving()).await.unwrap().ticket;
            assert!(store.release(request.reserving(), reserved).await.unwrap());
        }
        for _ in 0..used(index) {
            assert!(store.acquire(request).await.unwrap().allowed);
        }
    }
    for round in 0..3 {
        let before = calls(&server);
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
        assert!(calls(&server) - before <= 32);
    }
}

/// All are there before the first is answered.
#[tokio::test]
async fn what_is_asked_of_a_key_is_done_in_the_order_in_which_it_came() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(10, MINUTE)];
    for &algorithm in Algorithm::ALL {
        let (noise, key) = (format!("{algorithm}noise"), format!("{algorithm}key"));
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let reserved = store.acquire(request.reserving()).await.unwrap().ticket;
        let charged = store.acquire(request).await.unwrap().ticket;
        let before = calls(&server);

        // Whoever comes now waits until the first is answered.
        let told = |verdict: Verdict| (verdict.allowed, verdict.remaining);
        let peek = || async { told(store.peek(request).await.unwrap()) };
        let other = Request::new(noise.as_bytes(), algorithm, &limits);
        let mut asked: Vec<Asked<'_>> = vec![
            Box::pin(async { told(store.acquire(other).await.unwrap()) }),
            Box::pin(peek()),
            Box::pin(async { (store.release(request.reserving(), reserved).await.unwrap(), 0) }),
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
            (false, 9),
            done,
            (true, 8),
            (true, 8),
        ];
        assert_eq!(seen, expected, "{algorithm}");
        let sent = calls(&server) - before;
        assert!(sent <= 4, "{algorithm}: {sent} calls");
    }
}

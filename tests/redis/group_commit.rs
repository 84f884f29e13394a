//! Calls that share commands: each is decided as if it had come alone, and whatever happens to one
//! of them happens to no other.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use super::{MINUTE, PATIENCE, acquire, number_of};
use crate::support::redis::RedisServer;
use crate::support::unique;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How often the server was told a command.
fn calls(server: &RedisServer, command: &str) -> i64 {
    let stats = server.info("commandstats", &format!("cmdstat_{command}"));
    stats.strip_prefix("calls=").and_then(|stats| stats.split(',').next()).map_or(0, number_of)
}

async fn on(server: &RedisServer) -> Arc<RedisStore> {
    let store = Arc::new(RedisStore::new(&server.url()).unwrap());
    store.ready().await.unwrap();
    store
}

/// What so many callers are told who come at once: the `index`-th asks this key.
async fn burst(
    store: &Arc<RedisStore>,
    callers: usize,
    limit: Limit,
    key: impl Fn(usize) -> String,
) -> Vec<Result<Verdict, StoreError>> {
    let mut running = JoinSet::new();
    for index in 0..callers {
        let (store, key) = (Arc::clone(store), key(index));
        running.spawn(async move { (index, acquire(&store, &key, limit).await) });
    }
    let mut verdicts = running.join_all().await;
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

#[tokio::test]
async fn many_callers_of_one_key_are_few_commands_and_each_has_its_own_verdict() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let key = unique("hot");
    let limit = Limit::new(400, MINUTE);
    let verdicts = burst(&store, 512, limit, |_| key.clone()).await;
    let verdicts: Vec<Verdict> = verdicts.into_iter().map(Result::unwrap).collect();

    let admitted: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.allowed).collect();
    assert_eq!(admitted.len(), 400);
    // First come, first served; and each admission has what was left after it, and a ticket of its
    // own.
    assert!(verdicts.iter().take(400).all(|verdict| verdict.allowed));
    let remaining: Vec<u64> = admitted.iter().map(|verdict| verdict.remaining).collect();
    assert_eq!(remaining, (0..400).rev().collect::<Vec<u64>>());
    let mut tickets: Vec<u64> = admitted.iter().map(|verdict| verdict.ticket).collect();
    tickets.sort_unstable();
    tickets.dedup();
    assert_eq!(tickets.len(), 400);
    assert!(verdicts.iter().skip(400).all(|verdict| verdict.retry_after_us > 0 && verdict.remaining == 0));
    let sent = calls(&server, "evalsha") + calls(&server, "eval");
    assert!(sent <= 8, "{sent} commands for 512 calls");

    // Each can be given back by itself.
    let limits = [limit];
    let request = || Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    for verdict in [admitted[0], admitted[7], admitted[399]] {
        assert!(store.refund(request(), verdict.ticket).await.unwrap());
        assert!(!store.refund(request(), verdict.ticket).await.unwrap(), "once");
    }
    assert_eq!(store.peek(request()).await.unwrap().remaining, 3);
}

#[tokio::test]
async fn a_key_that_holds_something_else_fails_alone() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limit = Limit::new(100, MINUTE);
    server.cli(&["RPUSH", "list", "x"]);
    for _ in 0..3 {
        let key = |index: usize| if index % 5 == 2 { "list".to_owned() } else { format!("key{index}") };
        let verdicts = burst(&store, 200, limit, key).await;
        for (index, verdict) in verdicts.into_iter().enumerate() {
            match verdict {
                Err(error) if index % 5 == 2 => assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}"),
                Ok(verdict) if index % 5 != 2 => assert!(verdict.allowed),
                other => panic!("{index}: {other:?}"),
            }
        }
    }
    // On its own, it is told the same.
    let error = acquire(&store, "list", limit).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert_eq!(server.number(&["LLEN", "list"]), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_flushed_under_load_cost_no_caller_a_decision() {
    let server = Arc::new(RedisServer::start());
    let store = on(&server).await;
    let limit = Limit::new(1_000_000, MINUTE);
    let mut running = JoinSet::new();
    for caller in 0..64 {
        let store = Arc::clone(&store);
        running.spawn(async move {
            for _ in 0..100 {
                assert!(acquire(&store, &format!("key{}", caller % 16), limit).await.unwrap().allowed);
            }
        });
    }
    let flushing = {
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || (0..10).for_each(|_| drop(server.cli(&["SCRIPT", "FLUSH"]))))
    };
    running.join_all().await;
    flushing.await.unwrap();
    let used = |key: i32| {
        let limits = [limit];
        let (store, key) = (Arc::clone(&store), format!("key{key}"));
        async move {
            let peeked = store.peek(Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits)).await.unwrap();
            limit.max() - peeked.remaining
        }
    };
    let mut counted = 0;
    for key in 0..16 {
        counted += used(key).await;
    }
    assert_eq!(counted, 6_400);
}

/// Polls once, as a caller does who is dropped then.
fn poll_once(answer: &mut ratelimit_runtime::store::Answer<'_, Verdict>) {
    assert!(Pin::new(answer).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[tokio::test]
async fn cancelled_callers_are_not_sent_and_the_others_are_answered() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(100, MINUTE)];
    let ask = || store.acquire(Request::new(b"key", Algorithm::SlidingWindow, &limits));
    assert!(ask().await.unwrap().allowed);
    for dropped in 0..4 {
        let before = server.number(&["ZCARD", "key"]);
        // The first is sent at once; the others wait for its reply.
        let mut answers: Vec<_> = (0..4).map(|_| Some(ask())).collect();
        for answer in answers.iter_mut().flatten() {
            poll_once(answer);
        }
        answers[dropped] = None;
        for answer in answers.into_iter().flatten() {
            assert!(timeout(PATIENCE, answer).await.unwrap().unwrap().allowed);
        }
        // The first was sent, unless the runtime was late and had to read first.
        let asked = if dropped == 0 { 3..=4 } else { 3..=3 };
        assert!(asked.contains(&(server.number(&["ZCARD", "key"]) - before)), "number {dropped} gave up");
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_fails_those_who_were_sent_and_asks_again_for_the_others() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limit = Limit::new(100, MINUTE);
    for round in 0..5 {
        let key = format!("key{round}");
        server.freeze();
        let mut running = JoinSet::new();
        for _ in 0..50 {
            let (store, key) = (Arc::clone(&store), key.clone());
            running.spawn(async move { acquire(&store, &key, limit).await.is_ok() });
        }
        tokio::task::yield_now().await;
        server.thaw();
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        let told = timeout(PATIENCE, running.join_all()).await.unwrap();
        let told = i64::try_from(told.into_iter().filter(|told| *told).count()).unwrap();
        let counted = server.number(&["ZCARD", &key]);
        assert!(told <= counted && counted <= 50, "{told} told, {counted} counted");
        timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn callers_with_a_clock_of_their_own_share_a_call_at_the_latest_time_of_them() {
    let server = RedisServer::start();
    let clock = FakeClock::new();
    let store = RedisStore::new(&server.url()).unwrap().with_clock(clock.clone());
    store.ready().await.unwrap();
    let limits = [Limit::new(2, Duration::from_secs(10))];
    let mut answers = Vec::new();
    for _ in 0..12 {
        let mut answer = store.acquire(Request::new(b"key", Algorithm::SlidingWindow, &limits));
        poll_once(&mut answer);
        answers.push(answer);
        clock.advance(Duration::from_secs(2));
    }
    let mut admitted = Vec::new();
    for answer in answers {
        admitted.push(answer.await.unwrap().allowed);
    }
    // All are sent together, at 22 seconds.
    let expected: Vec<bool> = (0..12).map(|index| index < 2).collect();
    assert_eq!(admitted, expected);
}

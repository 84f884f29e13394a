//! Stacked groups of callers that come at the same time: each is decided as if it had come alone,
//! all or none.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::{MINUTE, PATIENCE};
use crate::support::redis::RedisServer;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Answer, Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;
use tokio::time::timeout;

async fn on(server: &RedisServer) -> Arc<RedisStore> {
    let store = Arc::new(RedisStore::new(&server.url()).unwrap().deny_cache(false));
    store.ready().await.unwrap();
    store
}

/// Polls once: the group is on its way, or waits for the next call.
fn poll_once(answer: &mut Answer<'_, Vec<Verdict>>) {
    assert!(Pin::new(answer).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

type Verdicts = Result<Vec<Verdict>, StoreError>;

/// What so many callers of two rules are told who come at once; the `index`-th asks these keys.
async fn stacks(
    store: &Arc<RedisStore>,
    callers: usize,
    limits: [Limit; 2],
    keys: impl Fn(usize) -> [String; 2],
) -> Vec<Verdicts> {
    let mut running = JoinSet::new();
    for index in 0..callers {
        let (store, keys) = (Arc::clone(store), keys(index));
        running.spawn(async move {
            let algorithms = [Algorithm::LeakyBucket, Algorithm::SlidingWindow];
            let requests =
                [0, 1].map(|at| Request::new(keys[at].as_bytes(), algorithms[at], std::slice::from_ref(&limits[at])));
            (index, store.acquire_all(&requests).await)
        });
    }
    let mut verdicts = running.join_all().await;
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdicts)| verdicts).collect()
}

fn is_admitted(verdicts: &[Verdict]) -> bool {
    verdicts.len() == 2 && verdicts.iter().all(|verdict| verdict.allowed)
}

#[tokio::test]
async fn a_group_that_cannot_be_decided_fails_alone_and_charges_nothing() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(100, MINUTE), Limit::new(100, MINUTE)];
    server.cli(&["RPUSH", "list", "x"]);
    for round in 1..=3 {
        for foreign in 0..2 {
            let keys = |index: usize| {
                let mut keys = [format!("a{foreign}{index}"), format!("b{foreign}{index}")];
                if index % 7 == 3 {
                    keys[foreign] = "list".to_owned();
                }
                keys
            };
            for (index, told) in stacks(&store, 200, limits, keys).await.into_iter().enumerate() {
                match told {
                    Err(error) if index % 7 == 3 => assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}"),
                    Ok(verdicts) if index % 7 != 3 => {
                        assert!(verdicts.iter().all(|verdict| verdict.allowed && verdict.remaining == 100 - round));
                    }
                    other => panic!("{index}: {other:?}"),
                }
            }
        }
    }
    // The other key of a group that failed has not been charged.
    for (key, algorithm) in [("a13", Algorithm::LeakyBucket), ("b03", Algorithm::SlidingWindow)] {
        let request = Request::new(key.as_bytes(), algorithm, &limits[..1]);
        assert_eq!(store.peek(request).await.unwrap().remaining, 100, "{key}");
    }
    assert_eq!(server.number(&["LLEN", "list"]), 1);
}

#[tokio::test]
async fn groups_survive_a_cold_script_cache_and_callers_who_give_up() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(126, MINUTE)];
    let keys = ["a", "b"];
    let requests = keys.map(|key| Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits));
    for dropped in 0..4 {
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
        let before = server.number(&["ZCARD", "a"]);
        // The first is sent at once; the others wait for it.
        let mut answers: Vec<_> = (0..25).map(|_| Some(store.acquire_all(&requests))).collect();
        for answer in answers.iter_mut().flatten() {
            poll_once(answer);
        }
        answers[dropped] = None;
        for answer in answers.into_iter().flatten() {
            assert!(is_admitted(&timeout(PATIENCE, answer).await.unwrap().unwrap()));
        }
        // The server did not know the script, so that even the first one was not decided.
        let asked = server.number(&["ZCARD", "a"]) - before;
        assert!((24..=25).contains(&asked), "{asked}: number {dropped} gave up");
        assert_eq!(server.number(&["ZCARD", "a"]), server.number(&["ZCARD", "b"]));
    }
}

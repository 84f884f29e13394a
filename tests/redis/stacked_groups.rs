//! Stacked groups of callers that come at the same time: each is decided as if it had come alone,
//! all or none.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use super::MINUTE;
use crate::support::redis::RedisServer;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;

async fn on(server: &RedisServer) -> Arc<RedisStore> {
    let store = Arc::new(RedisStore::new(&server.url()).unwrap().deny_cache(false));
    store.ready().await.unwrap();
    store
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

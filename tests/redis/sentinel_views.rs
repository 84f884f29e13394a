//! Sentinels that know less than the store does.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::{Limit, RedisStore};
use tokio::time::{sleep, timeout};

use super::{MINUTE, PATIENCE, acquire, acquire_in_time};
use crate::support::fake_sentinel::FakeSentinel;
use crate::support::redis::RedisServer;
use crate::support::unique;

/// A store that has found the master.
async fn ready(sentinel: &FakeSentinel) -> RedisStore {
    let store = RedisStore::new(&sentinel.url()).unwrap().deny_cache(false);
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
    store
}

/// Counts a call; whether it was counted on this server. `None` if the store did not answer.
async fn counts_on(store: &RedisStore, server: &RedisServer) -> Option<bool> {
    let key = unique("view");
    let _counted = acquire_in_time(store, &key).await.ok()?;
    Some(server.cli(&["EXISTS", &key]) == "1")
}

/// Waits until the store counts on this server.
async fn followed(store: &RedisStore, server: &RedisServer) {
    let start = Instant::now();
    while counts_on(store, server).await != Some(true) {
        assert!(start.elapsed() < PATIENCE, "the master is followed");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_outdated_sentinel_that_alone_answers_is_not_believed_while_the_master_serves() {
    let (old, mut new) = (RedisServer::start(), RedisServer::start());
    let sentinel = FakeSentinel::start(&new, 5).await;
    let store = ready(&sentinel).await;
    assert_eq!(counts_on(&store, &new).await, Some(true));
    sentinel.say(&old, 4);
    for _ in 0..3 {
        new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        let mut counted = 0;
        let start = Instant::now();
        while counted < 10 {
            assert!(start.elapsed() < PATIENCE);
            if let Some(is_new) = counts_on(&store, &new).await {
                assert!(is_new, "counted on the master of before");
                counted += 1;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
    // Where it does not serve any more, there is nothing better to be had.
    new.stop();
    followed(&store, &old).await;
}

/// What is known by a higher epoch is a replica now, so the lower one was right after all.
#[tokio::test]
async fn an_outdated_sentinel_is_believed_where_the_last_master_is_none_any_more() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let sentinel = FakeSentinel::start(&new, 5).await;
    let store = ready(&sentinel).await;
    assert_eq!(counts_on(&store, &new).await, Some(true));
    sentinel.say(&old, 0);
    new.cli(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let start = Instant::now();
    // What is counted on the old one is copied to the other.
    while acquire(&store, &unique("view"), Limit::new(1, MINUTE)).await.is_err() {
        assert!(start.elapsed() < PATIENCE, "the master is followed");
        sleep(Duration::from_millis(10)).await;
    }
}

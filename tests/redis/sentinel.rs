//! Sentinel: the store uses the master that the sentinels name, wherever it goes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{MINUTE, PATIENCE, acquire};
use crate::support::asking::{connections_since, connections_taken};
use crate::support::fake_sentinel::FakeSentinel;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::sentinel::{NAME, Sentinels};
use crate::support::{unique, until};
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::{Limit, RedisStore};
use tokio::time::{sleep, timeout};

async fn ready(url: &str) -> RedisStore {
    let store = RedisStore::new(url).unwrap().deny_cache(false);
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
    store
}

/// Whether the store counts on this server, however late.
async fn counts_on(store: &RedisStore, server: &RedisServer) -> bool {
    let key = unique("where");
    let answer = timeout(PATIENCE, acquire(store, &key, Limit::new(1, MINUTE))).await;
    answer.unwrap().is_ok() && server.cli(&["EXISTS", &key]) == "1"
}

/// Connecting to it, logging in and asking take a round trip each.
#[tokio::test]
async fn a_sentinel_far_away_is_waited_for() {
    let server = RedisServer::start();
    let sentinel = FakeSentinel::start(&server, 1).await;
    let far = Proxy::start(sentinel.port()).await;
    far.delay(Duration::from_millis(300));
    let store = ready(&format!("redis+sentinel://{}/main", far.address())).await;
    assert!(counts_on(&store, &server).await);
}

/// One that is gone, one that is frozen, and one that answers.
#[tokio::test]
async fn one_sentinel_is_enough() {
    let mut all = Sentinels::start(3);
    all.sentinels[0].stop();
    all.sentinels[1].freeze();
    let start = Instant::now();
    let store = ready(&all.url()).await;
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "no caller waits for the others: {:?}",
        start.elapsed()
    );
    assert!(counts_on(&store, &all.servers[0]).await);
}

#[tokio::test]
async fn a_master_that_no_sentinel_knows_is_misconfigured() {
    let all = Sentinels::start(1);
    let store =
        RedisStore::new(&format!("redis+sentinel://:hunter2@{}/nobody", all.hosts())).unwrap();
    let error = timeout(PATIENCE, store.ready()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.message().contains("\"nobody\""), "{error}");
    assert!(
        !format!("{error:?} {store:?}").contains("hunter2"),
        "{error:?} {store:?}"
    );
    // What is asked has to be a sentinel.
    let server = &all.servers[0];
    let store = RedisStore::new(&format!(
        "redis+sentinel://127.0.0.1:{}/{NAME}",
        server.port()
    ))
    .unwrap();
    let error = timeout(PATIENCE, store.ready()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.message().contains("SENTINEL"), "{error}");
}

#[tokio::test]
async fn the_sentinels_have_a_login_of_their_own() {
    let servers = [
        "--requirepass",
        "of-the-master",
        "--masterauth",
        "of-the-master",
    ];
    let lines = format!("requirepass of-the-sentinel\nsentinel auth-pass {NAME} of-the-master");
    let all = Sentinels::start_with(1, &servers, &lines);
    let url = |query: &str| {
        format!(
            "redis+sentinel://:of-the-master@{}/{NAME}/3{query}",
            all.hosts()
        )
    };
    let store = ready(&url("?sentinel_password=of-the-sentinel")).await;
    let key = unique("login");
    assert!(
        acquire(&store, &key, Limit::new(1, MINUTE))
            .await
            .unwrap()
            .allowed
    );
    assert!(all.servers[0].info("keyspace", "db3").starts_with("keys=1"));
    for wrong in ["", "?sentinel_password=of-the-master"] {
        let store = RedisStore::new(&url(wrong)).unwrap();
        let error = timeout(PATIENCE, store.ready()).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains("sentinel"), "{error}");
        assert!(
            !format!("{error:?} {store:?}").contains("of-the"),
            "{error:?}"
        );
    }
}

/// What is known by a higher epoch is a replica now, so the lower one was right after all.
#[tokio::test]
async fn an_outdated_sentinel_is_believed_where_the_last_master_is_none_any_more() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let sentinel = FakeSentinel::start(&new, 5).await;
    let store = ready(&sentinel.url()).await;
    assert!(counts_on(&store, &new).await);
    sentinel.say(&old, 0);
    new.cli(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    // What is counted on the old one is copied to the other.
    let answers = async || {
        acquire(&store, &unique("view"), Limit::new(1, MINUTE))
            .await
            .is_ok()
    };
    until("the master is followed", PATIENCE, answers).await;
}

/// It is the nearest, and has missed the fail-over to a server that the other sentinel names.
#[tokio::test]
async fn an_outdated_sentinel_that_answers_first_hides_no_master() {
    let (mut old, new) = (RedisServer::start(), RedisServer::start());
    let outdated = FakeSentinel::start(&old, 1).await;
    let sentinel = FakeSentinel::start(&new, 2).await;
    let far = Proxy::start(sentinel.port()).await;
    far.delay(Duration::from_millis(20));
    old.stop();
    let store = ready(&both(outdated.port(), far.port())).await;
    assert!(counts_on(&store, &new).await);
}

/// Both were set up anew, and one of them with the address of the master before.
#[tokio::test]
async fn of_outdated_sentinels_the_one_that_answers_last_hides_no_master() {
    let (mut old, new) = (RedisServer::start(), RedisServer::start());
    let [right, wrong] = [
        FakeSentinel::start(&old, 10).await,
        FakeSentinel::start(&old, 10).await,
    ];
    let far = Proxy::start(wrong.port()).await;
    far.delay(Duration::from_millis(20));
    let store = ready(&both(right.port(), far.port())).await;
    right.say(&new, 1);
    wrong.say(&old, 0);
    old.stop();
    let key = unique("view");
    let answers = async || acquire(&store, &key, Limit::new(9, MINUTE)).await.is_ok();
    until("the master is found", PATIENCE, answers).await;
    assert!(counts_on(&store, &new).await);
}

/// One announces host names, and the other addresses.
#[tokio::test]
async fn sentinels_that_name_one_master_in_two_ways_end_no_connection() {
    let server = RedisServer::start();
    let by_address = FakeSentinel::start(&server, 0).await;
    let by_name = FakeSentinel::start(&server, 0).await;
    by_name.say_host("localhost");
    let store = ready(&both(by_address.port(), by_name.port())).await;
    let taken = connections_taken(&server);
    // Each is asked every second.
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(connections_since(&server, taken), 0);
    assert!(counts_on(&store, &server).await);
}

/// It was set up with the address of a replica or of a dead server, or names one since a fail-over
/// of which the other sentinel does not know; or it has missed one, and names the master before; or
/// it watches another master by the same name.
#[tokio::test]
async fn a_sentinel_that_names_no_master_ends_no_connection() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Named {
        Replica,
        Dead,
        Former,
        Another,
    }
    use Named::{Another, Dead, Former, Replica};
    let all = [
        (1, Another),
        (1, Replica),
        (1, Dead),
        (2, Replica),
        (2, Dead),
        (0, Former),
    ];
    join_all(all.map(async |(epoch, named)| {
        let (server, mut other) = (RedisServer::start(), RedisServer::start());
        let wrong = FakeSentinel::start(&other, epoch).await;
        if named == Dead {
            other.stop();
        } else if named == Replica {
            other.cli(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
            let is_copy = async || other.info("replication", "master_link_status") == "up";
            until("it is a copy", PATIENCE, is_copy).await;
        }
        let right = FakeSentinel::start(&server, 1).await;
        let store = ready(&both(right.port(), wrong.port())).await;
        // A fail-over that is told later ends one.
        sleep(Duration::from_millis(500)).await;
        // Of two that differ in nothing, the first to answer is believed.
        let server = if named == Another && counts_on(&store, &other).await {
            &other
        } else {
            &server
        };
        let taken = connections_taken(server);
        // Each is asked every second.
        sleep(Duration::from_millis(2_500)).await;
        assert_eq!(connections_since(server, taken), 0, "{epoch}, {named:?}");
        assert!(counts_on(&store, server).await);
    }))
    .await;
}

/// What it counts would be lost.
#[tokio::test]
async fn a_master_that_was_replaced_is_left_also_where_the_next_one_is_not_reached() {
    let (old, mut next) = (RedisServer::start(), RedisServer::start());
    let sentinel = FakeSentinel::start(&old, 1).await;
    let store = ready(&sentinel.url()).await;
    next.stop();
    sentinel.say(&next, 2);
    let key = unique("replaced");
    let is_left = async || acquire(&store, &key, Limit::new(1, MINUTE)).await.is_err();
    until("the old one is left", PATIENCE, is_left).await;
}

fn both(one: u16, other: u16) -> String {
    format!("redis+sentinel://127.0.0.1:{one},127.0.0.1:{other}/{NAME}")
}

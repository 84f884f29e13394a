//! Servers close connections that were idle for a while, and some say nothing any more.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ratelimit_runtime::__private::{BuiltInStore as _, Health};
use ratelimit_runtime::{Limit, RedisMode, RedisStore};

use crate::support::asking::{Outcome, TIMEOUT, ask_within, connected, health};
use crate::support::redis::RedisServer;
use crate::support::until;

/// A call that has time enough to make another connection, however busy the machine is: it fails if
/// it was sent on one that is closed.
async fn ask(store: &RedisStore) -> Outcome {
    ask_within(
        store,
        "key",
        Limit::per_hour(1_000),
        Duration::from_secs(20),
    )
    .await
}

#[tokio::test]
async fn no_call_fails_because_an_idle_connection_was_closed() {
    let server = RedisServer::start_with(&["--timeout", "1"]);
    let modes = [RedisMode::Scripts, RedisMode::Transactions];
    let calls = modes.map(async |mode| {
        let store = connected(&server.url()).await.mode(mode);
        for (call, pause) in [0, 900, 1_000, 1_050, 1_100, 1_500, 2_100, 3_000]
            .into_iter()
            .enumerate()
        {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let outcome = ask(&store).await;
            assert!(outcome.is_answered(), "call {call}, {mode:?}: {outcome:?}");
        }
    });
    join_all(calls).await;
}

/// The runtime was busy while the server hung up, so it does not know yet.
#[tokio::test]
async fn a_connection_that_was_closed_unnoticed_is_not_used() {
    let server = RedisServer::start();
    for mode in [RedisMode::Scripts, RedisMode::Transactions] {
        let store = connected(&server.url()).await.mode(mode);
        for _ in 0..5 {
            assert!(ask(&store).await.is_answered());
            std::thread::sleep(Duration::from_millis(120));
            server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            let outcome = ask(&store).await;
            assert!(outcome.is_answered(), "{mode:?}: {outcome:?}");
        }
    }
}

/// After a call that waits in vain, and a PING: long before the PING that is sent each second.
#[tokio::test]
async fn a_server_that_stands_still_is_slow_after_two_timeouts() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await;
    store.answers_within(TIMEOUT);
    assert!(ask(&store).await.is_answered());
    server.freeze();
    let start = Instant::now();
    let outcome = ask_within(&store, "key", Limit::per_hour(1_000), TIMEOUT).await;
    assert!(
        matches!(outcome, Outcome::Silent(Health::Up)),
        "{outcome:?}"
    );
    while health(&store) == Health::Up {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(
        (TIMEOUT * 2..TIMEOUT * 7).contains(&start.elapsed()),
        "{:?}",
        start.elapsed()
    );
}

/// However long a call may take.
#[tokio::test]
async fn a_busy_server_serves_again_within_a_second() {
    let server = RedisServer::start_with(&["--lua-time-limit", "1"]);
    let store = connected(&server.url()).await;
    store.answers_within(Duration::from_secs(10));
    let mut other = server.connect();
    std::thread::spawn(move || drop(other.send(&["EVAL", "while true do end", "0"])));
    let is_busy = async || !ask(&store).await.is_answered() && health(&store) != Health::Up;
    until("it is busy", Duration::from_secs(20), is_busy).await;
    server.cli(&["SCRIPT", "KILL"]);
    until("it serves again", Duration::from_secs(1), async || {
        health(&store) == Health::Up
    })
    .await;
}

/// As it does during a fail-over that it was asked for: it goes on to answer PING and ROLE, also on
/// new connections.
#[tokio::test]
async fn a_server_that_pauses_writes_is_away_until_it_goes_on() {
    let modes = [RedisMode::Scripts, RedisMode::Transactions];
    join_all(modes.map(pauses_writes)).await;
}

async fn pauses_writes(mode: RedisMode) {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap().mode(mode);
    store.answers_within(TIMEOUT);
    store.ready().await.unwrap();
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]), "OK");
    let answers = async || {
        let outcome = ask_within(&store, "key", Limit::per_hour(1_000), TIMEOUT).await;
        outcome.is_answered()
    };
    let is_away = async || !answers().await && health(&store) != Health::Up;
    until("it is away", Duration::from_secs(20), is_away).await;
    // A silent connection is replaced after two seconds.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        let after = start.elapsed();
        assert_ne!(health(&store), Health::Up, "{mode:?} after {after:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(server.cli(&["CLIENT", "UNPAUSE"]), "OK");
    until("it serves again", Duration::from_secs(10), answers).await;
}

/// As many settlements may wait as there are calls in flight, and none of them has to do anything.
#[tokio::test]
async fn who_waits_for_a_server_that_is_away_is_not_woken() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await;
    drop(server);
    let is_away = async || health(&store) == Health::Down;
    until("the store is away", Duration::from_secs(10), is_away).await;
    let (polls, mut ready) = (Cell::new(0), pin!(store.ready()));
    let counted = poll_fn(|cx| {
        polls.set(polls.get() + 1);
        ready.as_mut().poll(cx)
    });
    let waited = tokio::time::timeout(Duration::from_secs(2), counted).await;
    assert!(waited.is_err(), "{waited:?}");
    assert!(polls.get() < 10, "polled {} times", polls.get());
}

//! A server that is there and does not serve.

use std::time::{Duration, Instant};

use ratelimit_runtime::__private::Health;
use ratelimit_runtime::Limit;
use ratelimit_runtime::store::StoreErrorKind;

use crate::support::asking::{
    Outcome, TIMEOUT, ask, ask_within, become_like, connected, connections_since, connections_taken, health,
};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;

const LIMIT: Limit = Limit::per_hour(1_000);

#[tokio::test]
async fn a_frozen_server_is_slow_then_down_and_up_again_when_it_goes_on() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await;
    assert!(ask(&store, "key", LIMIT).await.is_answered());
    server.freeze();
    let start = Instant::now();
    assert!(matches!(ask(&store, "key", LIMIT).await, Outcome::Silent(Health::Up)));
    become_like(&store, Health::Slow, TIMEOUT * 3).await;
    assert!(start.elapsed() >= Duration::from_millis(195), "{:?}", start.elapsed());
    let asked = Instant::now();
    assert!(matches!(ask(&store, "key", LIMIT).await, Outcome::Failed(StoreErrorKind::Unavailable)));
    assert!(asked.elapsed() < TIMEOUT / 4, "no caller waits");
    become_like(&store, Health::Down, Duration::from_secs(4)).await;
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    server.thaw();
    let took = become_like(&store, Health::Up, Duration::from_secs(3)).await;
    println!("up {took:?} after the server went on");
}

/// The connection is kept, and what was answered by policy meanwhile is not sent afterwards.
#[tokio::test]
async fn a_short_freeze_keeps_its_connection() {
    let server = RedisServer::start();
    let store = connected(&server.url()).await;
    assert!(ask(&store, "key", LIMIT).await.is_answered());
    let taken = connections_taken(&server);
    server.freeze();
    let _ = ask(&store, "key", LIMIT).await;
    become_like(&store, Health::Slow, TIMEOUT * 3).await;
    for _ in 0..100 {
        assert!(matches!(ask(&store, "key", LIMIT).await, Outcome::Failed(StoreErrorKind::Unavailable)));
    }
    server.thaw();
    let took = become_like(&store, Health::Up, Duration::from_secs(1)).await;
    println!("up {took:?} after the server went on");
    let Outcome::Answered(verdict) = ask(&store, "key", LIMIT).await else { panic!("it is up") };
    assert_eq!(verdict.remaining, 997, "the one before, the one that was sent, and this");
    assert_eq!(connections_since(&server, taken), 0);
}

/// A script of another client keeps the server busy; it answers everything with BUSY, PINGs
/// included.
#[tokio::test]
async fn a_busy_server_is_slow() {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "50"]);
    let store = connected(&server.url()).await;
    let port = server.port().to_string();
    let mut busy = std::process::Command::new("redis-cli")
        .args(["-p", &port, "EVAL", "while true do end", "0"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let _ = ask(&store, "key", LIMIT).await;
    become_like(&store, Health::Slow, Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(health(&store), Health::Slow, "answered at once, and yet it does not serve");
    server.cli(&["SCRIPT", "KILL"]);
    become_like(&store, Health::Up, Duration::from_secs(2)).await;
    assert!(ask(&store, "key", LIMIT).await.is_answered());
    busy.wait().unwrap();
}

/// Callers were put off because an answer had once taken long; with nothing on its way, no answer
/// could tell that it was over.
#[tokio::test]
async fn one_late_answer_does_not_delay_later_callers() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let store = connected(&proxy.url()).await;
    proxy.delay(Duration::from_millis(80));
    let patient = ask_within(&store, "key", LIMIT, Duration::from_secs(5)).await;
    assert!(patient.is_answered(), "{patient:?}");
    proxy.delay(Duration::ZERO);
    let outcome = ask(&store, "key", LIMIT).await;
    assert!(outcome.is_answered(), "{outcome:?}");
}

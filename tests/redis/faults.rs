//! Servers that are not well: they die, freeze, swallow, forget, are read-only or full.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{DEADLINE, MINUTE, PATIENCE, acquire, acquire_in_time, number_of, peek, recovered};
use crate::support::redis::RedisServer;
use crate::support::unique;
use ratelimit_runtime::store::StoreErrorKind;
use ratelimit_runtime::{Limit, RedisStore, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn starts_without_a_server_and_finds_it_when_it_comes() {
    let mut server = RedisServer::start();
    server.stop();
    let store = Arc::new(RedisStore::new(&server.url()).unwrap());
    let key = unique("late");

    let error = acquire_in_time(&store, &key).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.message().contains(&server.port().to_string()), "says where: {error}");
    let start = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    assert!(start.elapsed() < DEADLINE * 5, "an outage costs nobody a deadline, but took {:?}", start.elapsed());

    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.ready().await }
    });
    sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "ready waits for the server");
    server.restart();
    timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
    assert!(acquire_in_time(&store, &key).await.unwrap().allowed);
}

#[tokio::test]
async fn recovers_by_itself_when_a_killed_server_returns() {
    let mut server = RedisServer::start();
    let key = unique("killed");
    for protocol in ["2", "3"] {
        let store = RedisStore::new(&format!("{}?protocol={protocol}", server.url())).unwrap();
        store.ready().await.unwrap();
        assert!(acquire_in_time(&store, &key).await.unwrap().allowed);
        server.stop();
        for _ in 0..20 {
            assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
        }
        server.restart();
        let took = recovered(&store, &key).await;
        assert!(took < Duration::from_secs(3), "took {took:?}");
    }
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_before_the_next_call() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let key = unique("idle");
    assert!(acquire_in_time(&store, &key).await.unwrap().allowed);
    // Longer than the time for which a new connection counts as suspicious.
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(server.cli(&["CLIENT", "KILL", "TYPE", "normal"]), "1");
    sleep(Duration::from_millis(200)).await;
    assert!(acquire_in_time(&store, &key).await.unwrap().allowed);
}

#[tokio::test]
async fn a_frozen_server_costs_a_few_deadlines_and_then_none() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let key = unique("frozen");
    store.ready().await.unwrap();
    server.freeze();
    for _ in 0..3 {
        assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    assert!(start.elapsed() < DEADLINE, "took {:?}", start.elapsed());
    server.thaw();
    let took = recovered(&store, &key).await;
    assert!(took < Duration::from_secs(3), "took {took:?}");
}

/// Passes bytes on to the server, after a delay, until told to swallow what the connections that exist then send.
struct Proxy {
    port: u16,
    swallow: tokio::sync::watch::Sender<u32>,
}

impl Proxy {
    async fn in_front_of(server: &RedisServer, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (swallow, generation) = tokio::sync::watch::channel(0);
        let behind = server.port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let generation = generation.clone();
                tokio::spawn(async move {
                    sleep(delay).await;
                    let server = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                    pass_on(client, server, generation).await;
                });
            }
        });
        Self { port, swallow }
    }
}

async fn pass_on(client: TcpStream, server: TcpStream, mut generation: tokio::sync::watch::Receiver<u32>) {
    let _ = *generation.borrow_and_update();
    tokio::select! {
        () = copy(&client, Some(&server)) => return,
        () = copy(&server, Some(&client)) => return,
        _ = generation.changed() => {}
    }
    copy(&client, None).await;
}

/// Copies until the end of `from`; to nowhere if there is no `to`.
async fn copy(from: &TcpStream, to: Option<&TcpStream>) {
    let mut bytes = [0; 4096];
    while from.readable().await.is_ok() {
        let mut rest = match from.try_read(&mut bytes) {
            Ok(n) if n > 0 => bytes.get(..n).unwrap(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Ok(_) | Err(_) => return,
        };
        while let (Some(to), false) = (to, rest.is_empty()) {
            to.writable().await.unwrap();
            if let Ok(n) = to.try_write(rest) {
                rest = rest.get(n..).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_connection_that_swallows_everything_is_replaced() {
    let server = RedisServer::start();
    let proxy = Proxy::in_front_of(&server, Duration::ZERO).await;
    for protocol in ["2", "3"] {
        let store = RedisStore::new(&format!("redis://127.0.0.1:{}/?protocol={protocol}", proxy.port)).unwrap();
        let key = unique("black-hole");
        assert!(acquire_in_time(&store, &key).await.unwrap().allowed);
        proxy.swallow.send_modify(|generation| *generation += 1);
        assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().message(), "deadline");
        for _ in 0..2 {
            // One that waits behind another on its key is told as soon as the server is known to be slow.
            assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
        }
        // It is given up after two seconds without a byte.
        let took = recovered(&store, &key).await;
        assert!(took < Duration::from_secs(4), "took {took:?}");
    }
}

#[tokio::test]
async fn connecting_may_take_longer_than_any_call_waits() {
    let server = RedisServer::start();
    let proxy = Proxy::in_front_of(&server, DEADLINE * 3).await;
    let store = RedisStore::new(&format!("redis://127.0.0.1:{}/", proxy.port)).unwrap();
    let key = unique("slow");
    assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().message(), "deadline");
    let took = recovered(&store, &key).await;
    assert!(took < DEADLINE * 6, "took {took:?}");
}

#[tokio::test]
async fn callers_who_give_up_in_a_hurry_do_not_cost_the_connection() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let key = unique("hurry");
    store.ready().await.unwrap();
    let connections = || server.info("stats", "total_connections_received");
    let before = number_of(&connections());
    for _ in 0..200 {
        // Polled once, so that it is sent, and dropped.
        let limit = Limit::new(1_000, MINUTE);
        let _ = timeout(Duration::ZERO, acquire(&store, &key, limit)).await;
    }
    assert!(acquire_in_time(&store, &key).await.unwrap().allowed);
    assert_eq!(number_of(&connections()), before + 1, "only the second question itself was a new connection");
}

#[tokio::test]
async fn a_read_only_replica_is_unavailable_until_it_is_promoted() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let key = unique("replica");
    assert!(acquire_in_time(&store, &key).await.unwrap().allowed);
    // A port where no server is: the replica keeps its data and refuses writes.
    let mut gone = RedisServer::start();
    gone.stop();
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", &gone.port().to_string()]), "OK");
    let own = || number_of(&server.info("stats", "total_connections_received"));
    let before = own();
    let error = acquire_in_time(&store, &key).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.message().contains("READONLY"), "{error}");
    // The name may lead to the new master by now, which only a new connection finds out.
    sleep(Duration::from_millis(200)).await;
    assert!(own() > before + 1, "besides the question itself there is a new connection");
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    recovered(&store, &key).await;
}

#[tokio::test]
async fn out_of_memory_is_full() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let (known, limit) = (unique("known"), Limit::new(100, MINUTE));
    assert!(acquire(&store, &known, limit).await.unwrap().allowed);
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    for key in [&known, &unique("new")] {
        assert_eq!(acquire(&store, key, limit).await.unwrap_err().kind(), StoreErrorKind::Full);
    }
    assert_eq!(peek(&store, &known, limit).await.unwrap().remaining, 99, "looking needs no memory");
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    assert!(acquire(&store, &known, limit).await.unwrap().allowed);
}

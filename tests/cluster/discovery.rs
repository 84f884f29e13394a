//! How the nodes of a cluster are found, and what is said where there is none.

use ratelimit_runtime::__private::BuiltInStore as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::support::cluster::{free_ports, lone_node, serve_all_slots, shared};
use crate::support::redis::RedisServer;
use crate::support::tls::{Authority, TlsServer};

/// What the store gives an attempt to connect: a call that waited for a frozen seed would take this
/// long.
const ATTEMPT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_frozen_seed_is_not_waited_for() {
    let cluster = shared();
    let frozen = RedisServer::start();
    frozen.freeze();
    let seeds = cluster.url().replace(
        "redis+cluster://",
        &format!("redis+cluster://127.0.0.1:{},", frozen.port()),
    );
    let store = RedisStore::new(&seeds).unwrap();
    let key = unique("seed");
    let answer = timeout(ATTEMPT, acquire(&store, &key, Limit::per_hour(3))).await;
    assert!(
        answer.is_ok_and(|answer| answer.unwrap().allowed),
        "it waits for the frozen seed"
    );
    frozen.thaw();
}

#[tokio::test]
async fn one_living_seed_is_enough_among_others_that_are_dead_or_know_of_no_slots() {
    let (cluster, empty) = (shared(), lone_node(&[]));
    let seeds = format!(
        "127.0.0.1:{},localhost:2,localhost:{}",
        empty.port(),
        cluster.node(1).port()
    );
    let store = RedisStore::new(&format!("redis+cluster://{seeds}")).unwrap();
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
    for node in 0..3 {
        assert!(
            acquire_in_time(&store, &key_on(cluster, node), Limit::per_hour(3))
                .await
                .is_ok()
        );
    }
}

/// Its endpoint is `?` then, and the address stands beside it. Redis 6.2 has no such setting.
#[tokio::test]
async fn nodes_that_prefer_host_names_and_have_none_are_found_by_address() {
    let server = lone_node(&[]);
    if server.version().starts_with("6.") {
        return;
    }
    serve_all_slots(&server);
    for (name, value) in [
        ("cluster-preferred-endpoint-type", "hostname"),
        ("cluster-announce-ip", "127.0.0.1"),
    ] {
        assert_eq!(server.cli(&["CONFIG", "SET", name, value]), "OK");
    }
    let store = RedisStore::new(&format!("redis+cluster://localhost:{}", server.port())).unwrap();
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
}

#[tokio::test]
async fn without_any_seed_callers_are_answered_in_time_and_seeds_are_tried_again() {
    let mut server = lone_node(&[]);
    server.stop();
    let store = RedisStore::new(&format!("redis+cluster://127.0.0.1:{}", server.port())).unwrap();
    let key = unique("late");
    for _ in 0..3 {
        let error = acquire_in_time(&store, &key, Limit::per_hour(3))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    }
    server.restart();
    let error = acquire_in_time(&store, &key, Limit::per_hour(3))
        .await
        .unwrap_err();
    assert_eq!(
        error.kind(),
        StoreErrorKind::Unavailable,
        "no node serves any slot: {error}"
    );
    serve_all_slots(&server);
    store.ready().await.unwrap();
    assert!(
        acquire_in_time(&store, &key, Limit::per_hour(3))
            .await
            .unwrap()
            .allowed
    );
}

#[tokio::test]
async fn a_single_server_is_told_from_a_cluster_and_a_cluster_from_a_single_server() {
    let single = RedisServer::start();
    // A mistake is told rather than that other seeds are dead.
    let store = RedisStore::new(&format!(
        "redis+cluster://127.0.0.1:{},127.0.0.1:1",
        single.port()
    ))
    .unwrap();
    for error in [
        timeout(PATIENCE, store.ready()).await.unwrap().unwrap_err(),
        acquire_in_time(&store, &unique("single"), Limit::per_hour(3))
            .await
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains("write redis://"), "{error}");
    }
    let cluster = shared();
    let store = cluster.node(0).store();
    let error = acquire_in_time(&store, &key_on(cluster, 1), Limit::per_hour(3))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    assert!(error.message().contains("redis+cluster://"), "{error}");
}

/// A password holds for all nodes, also for those that are found.
#[tokio::test]
async fn the_login_of_the_seeds_is_that_of_all_nodes() {
    let cluster =
        RedisCluster::start_with(2, 0, &["--requirepass", "secret", "--masterauth", "secret"]);
    let seed = format!("127.0.0.1:{}", cluster.node(0).port());
    let store = RedisStore::new(&format!("redis+cluster://:secret@{seed}")).unwrap();
    store.ready().await.unwrap();
    for node in 0..2 {
        assert!(
            acquire_in_time(&store, &key_on(&cluster, node), Limit::per_hour(3))
                .await
                .unwrap()
                .allowed
        );
    }
    for (url, expected) in [
        (format!("redis+cluster://{seed}"), "password"),
        (format!("redis+cluster://:wrong@{seed}"), "password"),
    ] {
        let store = RedisStore::new(&url).unwrap();
        let error = store.ready().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains(expected), "{error}");
    }
}

/// The certificates are checked for the nodes that are found as for the seeds.
#[tokio::test]
async fn tls_holds_for_all_nodes() {
    let (authority, port) = (Authority::new(), free_ports().to_string());
    let identity = authority.identity(&["127.0.0.1", "localhost"]);
    let args = [
        "--cluster-enabled",
        "yes",
        "--tls-cluster",
        "yes",
        "--tls-port",
        &port,
    ];
    let node = TlsServer::start_with(&authority, &identity, &args);
    serve_all_slots(&node.server);
    let url = format!("rediss+cluster://localhost:{port}");
    let store = RedisStore::new(&url)
        .unwrap()
        .ca_certificates(authority.certificate().as_bytes())
        .unwrap();
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
    assert!(
        acquire(&store, &unique("tls"), Limit::per_hour(3))
            .await
            .unwrap()
            .allowed
    );
    let stranger = RedisStore::new(&url)
        .unwrap()
        .ca_certificates(Authority::new().certificate().as_bytes())
        .unwrap();
    let error = timeout(PATIENCE, stranger.ready())
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
}

/// It stops right behind the login, and says nothing of slots.
#[tokio::test]
async fn a_seed_that_falls_silent_keeps_no_other_from_being_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut clients = Vec::new();
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.read(&mut [0; 256]).await;
            client.write_all(b"+PONG\r\n").await.unwrap();
            clients.push(client);
        }
    });
    let mut server = lone_node(&[]);
    server.stop();
    let seeds = format!("127.0.0.1:{silent},127.0.0.1:{}", server.port());
    let store = RedisStore::new(&format!("redis+cluster://{seeds}")).unwrap();
    assert!(
        acquire_in_time(&store, "key", Limit::per_hour(3))
            .await
            .is_err()
    );
    sleep(Duration::from_millis(500)).await;
    server.restart();
    serve_all_slots(&server);
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
}

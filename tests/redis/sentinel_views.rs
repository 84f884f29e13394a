//! Sentinels that know less than the store does, or of sentinels that are gone.

use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Limit, RedisStore, Store as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{MINUTE, PATIENCE, acquire, acquire_in_time};
use crate::support::redis::RedisServer;
use crate::support::unique;

/// What a sentinel says.
#[derive(Clone)]
struct View {
    master: u16,
    epoch: u64,
    /// Ports of other sentinels, and whether it holds them to be alive.
    others: Vec<(u16, bool)>,
}

/// Something that answers as a sentinel does.
struct Sentinel {
    port: u16,
    view: Arc<Mutex<View>>,
    alive: watch::Sender<bool>,
}

impl Sentinel {
    async fn start(master: &RedisServer, epoch: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let view = Arc::new(Mutex::new(View { master: master.port(), epoch, others: Vec::new() }));
        let (alive, mut ended) = watch::channel(true);
        let said = Arc::clone(&view);
        tokio::spawn(async move {
            let mut clients = JoinSet::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = ended.wait_for(|alive| !alive) => return,
                };
                let (mut client, _) = accepted.unwrap();
                let said = Arc::clone(&said);
                clients.spawn(async move {
                    let mut chunk = vec![0; 1 << 16];
                    while let Ok(came @ 1..) = client.read(&mut chunk).await {
                        // What is asked here comes whole.
                        let asked = String::from_utf8_lossy(&chunk[..came]).to_uppercase();
                        let view = said.lock().unwrap().clone();
                        let mut reply = String::new();
                        for word in asked.split("\r\n") {
                            match word {
                                "HELLO" => reply.push_str("%0\r\n"),
                                "PING" => reply.push_str("+PONG\r\n"),
                                "CLIENT" => reply.push_str("+OK\r\n"),
                                "GET-MASTER-ADDR-BY-NAME" => {
                                    reply.push_str(&list(&["127.0.0.1", &view.master.to_string()]));
                                }
                                "MASTER" => reply.push_str(&list(&["config-epoch", &view.epoch.to_string()])),
                                "SENTINELS" => reply.push_str(&view.others()),
                                _ => {}
                            }
                        }
                        if client.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, view, alive }
    }

    fn say(&self, master: &RedisServer, epoch: u64, others: &[(u16, bool)]) {
        *self.view.lock().unwrap() = View { master: master.port(), epoch, others: others.to_vec() };
    }

    fn stop(&self) {
        self.alive.send_replace(false);
    }

    async fn store(&self) -> RedisStore {
        let url = format!("redis+sentinel://127.0.0.1:{}/main", self.port);
        let store = RedisStore::new(&url).unwrap().deny_cache(false);
        timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
        store
    }
}

impl View {
    fn others(&self) -> String {
        let other = |(port, is_alive): &(u16, bool)| {
            let flags = if *is_alive { "sentinel" } else { "s_down,sentinel,disconnected" };
            list(&["name", "other", "ip", "127.0.0.1", "port", &port.to_string(), "flags", flags])
        };
        format!("*{}\r\n{}", self.others.len(), self.others.iter().map(other).collect::<String>())
    }
}

fn list(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches("\r\n").count() / 2)
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
    let sentinel = Sentinel::start(&new, 5).await;
    let store = sentinel.store().await;
    assert_eq!(counts_on(&store, &new).await, Some(true));
    sentinel.say(&old, 4, &[]);
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
    let sentinel = Sentinel::start(&new, 5).await;
    let store = sentinel.store().await;
    assert_eq!(counts_on(&store, &new).await, Some(true));
    sentinel.say(&old, 0, &[]);
    new.cli(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let start = Instant::now();
    // What is counted on the old one is copied to the other.
    while acquire(&store, &unique("view"), Limit::new(1, MINUTE)).await.is_err() {
        assert!(start.elapsed() < PATIENCE, "the master is followed");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn sentinels_that_are_dead_leave_room_for_those_that_are_alive() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let seed = Sentinel::start(&old, 1).await;
    // Ports on which nothing listens.
    let pods: Vec<u16> =
        (0..20).map(|_| StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()).collect();
    let listed = |alive: bool| pods.iter().map(|port| (*port, alive)).collect::<Vec<_>>();
    seed.say(&old, 1, &listed(true));
    let store = seed.store().await;
    let other = Sentinel::start(&new, 2).await;
    seed.say(&old, 1, &[listed(false), vec![(other.port, true)]].concat());
    // It is named with the next answer, and asked from then on.
    followed(&store, &new).await;
    // Now it is known, whatever becomes of the first.
    seed.stop();
    new.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let start = Instant::now();
    let mut counted = 0;
    while counted < 10 {
        assert!(start.elapsed() < PATIENCE);
        if let Some(is_new) = counts_on(&store, &new).await {
            assert!(is_new, "counted on the master of before");
            counted += 1;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

//! Nodes that say what no healthy node says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};

use ratelimit_runtime::__private::BuiltInStore as _;

use super::*;

/// A server that says who serves the slots, and answers every script in the same way.
struct Liar {
    port: u16,
    scripts: Arc<AtomicUsize>,
    is_replica: Arc<AtomicBool>,
}

impl Liar {
    /// In what it says, `PORT` stands for its own port.
    async fn start(slots: &'static str, script: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (slots, script) = (
            slots.replace("PORT", &port.to_string()),
            script.replace("PORT", &port.to_string()),
        );
        let (scripts, is_replica) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (counted, role) = (Arc::clone(&scripts), Arc::clone(&is_replica));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (slots, script, scripts) =
                    (slots.clone(), script.clone(), Arc::clone(&counted));
                let role = Arc::clone(&role);
                tokio::spawn(async move {
                    let mut client = BufStream::new(client);
                    while let Some(command) = next_command(&mut client).await {
                        let reply = match command
                            .iter()
                            .map(String::as_str)
                            .collect::<Vec<_>>()
                            .as_slice()
                        {
                            ["CLUSTER", "SLOTS"] => slots.clone(),
                            ["PING", number] => format!("${}\r\n{number}\r\n", number.len()),
                            ["PING"] => "+PONG\r\n".to_owned(),
                            ["ROLE"] if role.load(Ordering::Relaxed) => {
                                "*1\r\n$5\r\nslave\r\n".to_owned()
                            }
                            ["ROLE"] => "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_owned(),
                            // By which a connection asks whether writes are paused.
                            ["EVAL", _, "0"] => ":1\r\n".to_owned(),
                            ["EVALSHA" | "EVAL", ..] => {
                                scripts.fetch_add(1, Ordering::Relaxed);
                                script.clone()
                            }
                            _ => "+OK\r\n".to_owned(),
                        };
                        if client.write_all(reply.as_bytes()).await.is_err()
                            || client.flush().await.is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            port,
            scripts,
            is_replica,
        }
    }

    fn store(&self) -> RedisStore {
        RedisStore::new(&format!("redis+cluster://127.0.0.1:{}", self.port))
            .unwrap()
            .deny_cache(false)
    }

    /// One that has its slots, and a connection.
    async fn connected(&self) -> RedisStore {
        let store = self.store();
        timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
        store
    }
}

/// The next command with its arguments; `None` if the client is gone.
async fn next_command(client: &mut BufStream<TcpStream>) -> Option<Vec<String>> {
    let mut command = Vec::new();
    for _ in 0..next_number(client).await? {
        let mut argument = vec![0; next_number(client).await? + 2];
        client.read_exact(&mut argument).await.ok()?;
        argument.truncate(argument.len() - 2);
        command.push(String::from_utf8_lossy(&argument).into_owned());
    }
    Some(command)
}

/// The number in a line such as `$12`.
async fn next_number(client: &mut BufStream<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    client.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim_end().parse().ok()
}

const ALL_SLOTS: &str = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:PORT\r\n";

#[tokio::test]
async fn redirects_in_circles_end() {
    // The slot of `key`, and others; hosts that are left out or not known; and what names no place.
    for said in [
        "-MOVED 12539 127.0.0.1:PORT\r\n",
        "-MOVED 12539 :PORT\r\n",
        "-ASK 12539 127.0.0.1:PORT\r\n",
        "-MOVED 7 127.0.0.1:PORT\r\n",
        "-MOVED 12539 ?:PORT\r\n",
        "-ASK 12539 127.0.0.1:0\r\n",
        "-ASK\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    ] {
        let liar = Liar::start(ALL_SLOTS, said).await;
        let store = liar.connected().await;
        let error = timeout(PATIENCE, acquire(&store, "key", Limit::per_hour(3)))
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{said}: {error}");
        let asked = liar.scripts.load(Ordering::Relaxed);
        assert!(
            (2..=20).contains(&asked),
            "{said}: asked {asked} times: {error}"
        );
    }
}

#[tokio::test]
async fn a_cluster_that_is_down_is_not_waited_for() {
    for said in [
        "-CLUSTERDOWN The cluster is down\r\n",
        "-CLUSTERDOWN Hash slot not served\r\n",
    ] {
        let liar = Liar::start(ALL_SLOTS, said).await;
        let store = liar.connected().await;
        for _ in 0..30 {
            let error = timeout(PATIENCE, acquire(&store, "key", Limit::per_hour(3)))
                .await
                .unwrap()
                .unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        }
        assert_eq!(
            liar.scripts.load(Ordering::Relaxed),
            30,
            "{said}: each is asked once"
        );
    }
}

#[tokio::test]
async fn impossible_slots_are_an_error() {
    for said in [
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$9\r\n127.0.0.1\r\n:PORT\r\n",
        "*1\r\n*3\r\n:9\r\n:5\r\n*2\r\n$9\r\n127.0.0.1\r\n:PORT\r\n",
        "*1\r\n*1\r\n:0\r\n",
        "+OK\r\n",
        "*0\r\n",
        "-ERR no\r\n",
    ] {
        let liar = Liar::start(said, "+OK\r\n").await;
        let error = acquire_in_time(&liar.store(), "key", Limit::per_hour(3))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error.kind(),
                StoreErrorKind::Unavailable | StoreErrorKind::Misconfigured
            ),
            "{said}: {error}"
        );
        assert_eq!(liar.scripts.load(Ordering::Relaxed), 0);
    }
}

/// While a replica takes over, the map may name the node that was the master before.
#[tokio::test]
async fn a_node_that_has_become_a_replica_is_waited_for() {
    let slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:PORT\r\n";
    let liar = Liar::start(slots, "+OK\r\n").await;
    liar.is_replica.store(true, Ordering::Relaxed);
    let store = liar.store();
    let too_early = timeout(Duration::from_millis(300), store.ready()).await;
    assert!(too_early.is_err(), "{too_early:?}");
    liar.is_replica.store(false, Ordering::Relaxed);
    timeout(PATIENCE, store.ready()).await.unwrap().unwrap();
}

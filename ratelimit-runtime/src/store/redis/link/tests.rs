//! Links to real servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Value, cmd};

use super::*;
use crate::store::redis::settings::url;

/// A redis-server on a port of its own, killed on drop.
pub(in crate::store::redis) struct TestServer {
    pub(in crate::store::redis) port: u16,
    args: Vec<String>,
    process: Child,
}

impl TestServer {
    pub(in crate::store::redis) fn start(args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let process = Self::run(port, &args);
        Self { port, args, process }
    }

    fn run(port: u16, args: &[String]) -> Child {
        let mut server = Command::new("redis-server");
        server
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()])
            .args(args);
        let process = server.current_dir(std::env::temp_dir()).stdout(Stdio::null()).spawn().unwrap();
        let (start, address) = (Instant::now(), SocketAddr::from(([127, 0, 0, 1], port)));
        while TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(10), "redis-server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        process
    }

    pub(in crate::store::redis) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn restart(&mut self) {
        self.process = Self::run(self.port, &self.args);
    }

    fn signal(&self, name: &str) {
        Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status().unwrap();
    }

    pub(in crate::store::redis) fn cli(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn url(&self, query: &str) -> String {
        format!("redis://127.0.0.1:{}/{query}", self.port)
    }

    fn link(&self) -> Link {
        link(&self.url(""))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn link(url: &str) -> Link {
    Link::start(LinkSettings::new(Arc::new(url::server(url).unwrap())), &Handle::current())
}

async fn until(link: &Link, what: &str, is_so: impl Fn(&LinkStatus) -> bool) -> Duration {
    let start = Instant::now();
    let mut changes = link.changes();
    while !is_so(&link.status()) {
        let left = Duration::from_secs(10).saturating_sub(start.elapsed());
        assert!(tokio::time::timeout(left, changes.changed()).await.is_ok(), "never {what}: {:?}", link.status());
    }
    start.elapsed()
}

async fn until_up(link: &Link) -> Duration {
    until(link, "up", |status| matches!(status, LinkStatus::Up(_))).await
}

async fn until_away(link: &Link) -> Duration {
    until(link, "away", |status| matches!(status, LinkStatus::Away(_))).await
}

/// A call that a limiter gives up after its timeout.
async fn call(link: &Link) -> bool {
    let Ok(connection) = link.connected().await else { return false };
    let sent = Instant::now();
    let answer = tokio::time::timeout(Duration::from_millis(100), connection.send(cmd("GET").arg("k"))).await;
    if answer.is_err() {
        link.late(&connection, sent);
    }
    matches!(answer, Ok(Ok(Value::Nil)))
}

fn away(link: &Link) -> String {
    let LinkStatus::Away(error) = link.status() else { return String::new() };
    error.message().to_owned()
}

#[tokio::test]
async fn connects_in_either_protocol_and_sends() {
    let server = TestServer::start(&[]);
    for query in ["", "3?protocol=resp2", "?protocol=resp2"] {
        let mut server = url::server(&server.url(query)).unwrap();
        server.login.client_name = Some("limits".to_owned());
        let greeting = [cmd("SET").arg("greeted").arg(1).take(), cmd("NONSENSE")].into();
        let settings = LinkSettings { greeting, ..LinkSettings::new(Arc::new(server)) };
        let (epoch, link) = (Arc::clone(&settings.epoch), Link::start(settings, &Handle::current()));
        link.ready().await.unwrap();
        assert_eq!((link.health(), epoch.load(Relaxed)), (Health::Up, 1));
        let connection = link.connected().await.unwrap();
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg("greeted").cmd("NONSENSE").cmd("CLIENT").arg("GETNAME");
        let replies = connection.send_all(&pipeline, 3).await.unwrap();
        assert_eq!(replies[0], Value::BulkString(b"1".into()));
        assert!(matches!(replies[1], Value::ServerError(_)));
        assert_eq!(replies[2], Value::BulkString(b"limits".into()));
        assert!(connection.number() < connection.number() && (2..=64).contains(&connection.depth()));
        let another = link.connect_another().await.unwrap();
        let id = cmd("CLIENT").arg("ID").take();
        assert_ne!(connection.send(&id).await, another.send(&id).await);
        drop((another, link));
        connection.hang_up();
        assert_eq!(connection.send(&cmd("PING")).await, Err(Lost));
    }
    assert_eq!(server.cli(&["INFO", "keyspace"]).lines().count(), 3, "in two databases");
}

#[tokio::test]
async fn a_server_that_dies_is_away_at_once_and_found_again_within_a_second() {
    let mut server = TestServer::start(&[]);
    let link = server.link();
    assert!(call(&link).await);
    let (changes, connection) = (link.changes(), link.connected().await.unwrap());
    server.kill();
    assert!(until_away(&link).await < Duration::from_millis(500));
    assert!(connection.has_ended() && changes.has_changed().is_ok());
    assert_eq!(link.health(), Health::Down);
    assert!(away(&link).contains("no connection to Redis"), "{}", away(&link));
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.restart();
    assert!(until_up(&link).await < Duration::from_millis(1_500));
    assert!(call(&link).await);
}

#[tokio::test]
async fn a_server_that_is_frozen_is_slow_and_keeps_its_connection() {
    let server = TestServer::start(&[]);
    let link = server.link();
    let connection = link.connected().await.unwrap();
    server.signal("STOP");
    let start = Instant::now();
    assert!(!call(&link).await);
    assert!(matches!(link.status(), LinkStatus::Up(_)));
    until_away(&link).await;
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(195) && took < Duration::from_millis(400), "{took:?}");
    assert_eq!(link.health(), Health::Slow);
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.signal("CONT");
    assert!(until_up(&link).await < Duration::from_millis(500));
    assert!(!connection.has_ended() && Arc::ptr_eq(&connection, &link.connected().await.unwrap()));
    // Callers in a hurry say nothing about a server that has answered since.
    let sent = Instant::now();
    assert!(call(&link).await);
    link.late(&connection, sent);
    assert!(!connection.vitals.doubted.load(Relaxed));
}

#[tokio::test]
async fn a_replica_is_one_outage_and_its_master_is_found_again() {
    let server = TestServer::start(&[]);
    let link = server.link();
    link.ready().await.unwrap();
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let connection = link.connected().await.unwrap();
    let Ok(Value::ServerError(readonly)) = connection.send(cmd("SET").arg("k").arg(1)).await else { panic!() };
    link.note(&connection, &readonly);
    until_away(&link).await;
    for _ in 0..20 {
        assert_eq!(away(&link), "Redis is a read-only replica");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = link.ready().await.unwrap_err();
    assert!(error.kind() == StoreErrorKind::Misconfigured && error.message().contains("replica"), "{error}");
    // Where ROLE is forbidden, too.
    assert_eq!(server.cli(&["ACL", "SETUSER", "default", "-role"]), "OK");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(away(&link), "Redis is a read-only replica");
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert!(until_up(&link).await < Duration::from_millis(1_500));
}

#[tokio::test]
async fn an_idle_connection_that_is_closed_is_made_again_when_it_is_wanted() {
    let server = TestServer::start(&[]);
    let settings = LinkSettings::new(Arc::new(url::server(&server.url("")).unwrap()));
    let (epoch, link) = (Arc::clone(&settings.epoch), Link::start(settings, &Handle::current()));
    let connection = link.connected().await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    while !connection.has_ended() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(epoch.load(Relaxed), 1);
    assert!(call(&link).await);
    assert_eq!(epoch.load(Relaxed), 2);
}

#[tokio::test]
async fn what_does_not_speak_redis_is_said_to() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    for (says, expected) in [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak the protocol of Redis"),
        ("-DENIED Redis is running in protected mode because\r\n", "protected mode"),
        ("", "no connection"),
        ("*99999999999\r\n", "no connection"),
        (">1\r\n+hello\r\n", "no connection"),
    ] {
        for waits in [true, false] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let link = link(&format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port()));
            let (mut client, _) = listener.accept().await.unwrap();
            if waits {
                let _ = client.read(&mut [0; 256]).await;
            }
            let _ = client.write_all(says.as_bytes()).await;
            drop(client);
            until_away(&link).await;
            assert!(away(&link).contains(expected), "{says:?} {waits}: {}", away(&link));
        }
    }
}

//! Sentinels that are played, in front of real servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use redis::cmd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::store::redis::link::tests::TestServer;
use crate::store::redis::link::{Link, LinkSettings, LinkStatus};
use crate::store::redis::settings::deployment::Deployment;

/// Something that answers as a sentinel does.
struct Played {
    port: u16,
    /// The port of the master, and the epoch.
    says: Arc<Mutex<(u16, u64)>>,
    task: tokio::task::JoinHandle<()>,
}

impl Played {
    async fn start(master: &TestServer, epoch: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let says = Arc::new(Mutex::new((master.port, epoch)));
        let answers = Arc::clone(&says);
        let task = tokio::spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let says = Arc::clone(&answers);
                clients.spawn(async move {
                    while client.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {
                        let (port, epoch) = *says.lock().unwrap();
                        let (port, epoch) = (port.to_string(), epoch.to_string());
                        let address = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
                        let master = format!("*2\r\n$12\r\nconfig-epoch\r\n${}\r\n{epoch}\r\n", epoch.len());
                        client.write_all(format!("{address}{master}*0\r\n").as_bytes()).await.unwrap();
                    }
                });
            }
        });
        Self { port, says, task }
    }

    fn say(&self, master: &TestServer, epoch: u64) {
        *self.says.lock().unwrap() = (master.port, epoch);
    }

    fn stop(&self) {
        self.task.abort();
    }
}

fn link(sentinels: &[&Played]) -> Link {
    let hosts: Vec<_> = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
    let url = format!("redis+sentinel://{}/main", hosts.join(","));
    let Ok(Deployment::Sentinel(watched)) = Deployment::from_url(&url) else { panic!("{url}") };
    Link::start(LinkSettings::new(Arc::new(Sentinels::new(&watched))), &tokio::runtime::Handle::current())
}

async fn until_on(link: &Link, server: &TestServer) -> Duration {
    let start = Instant::now();
    let mut changes = link.changes();
    while !matches!(link.status(), LinkStatus::Up(on) if on.server().is_at("127.0.0.1", server.port)) {
        let change = tokio::time::timeout(Duration::from_secs(10), changes.changed()).await;
        assert!(change.is_ok(), "it is not followed: {:?}", link.status());
    }
    start.elapsed()
}

#[test]
fn the_log_names_the_server_that_was_found() {
    let Ok(Deployment::Sentinel(watched)) = Deployment::from_url("redis+sentinel://u:hunter2@a/main") else {
        panic!("it is Sentinel")
    };
    let sentinels = Sentinels::new(&watched);
    let found = watched.master.at("10.0.0.1", 6380);
    assert_eq!(sentinels.describe(&found), "10.0.0.1:6380 (main by Sentinel at a:26379)");
    assert_eq!(Upstream::name(&sentinels), "main", "metrics keep the name of the master");
    assert_eq!(found.describe(&found), "10.0.0.1:6380");
}

#[tokio::test]
async fn a_master_that_still_answers_is_left_for_the_new_one_and_an_outdated_answer_is_not_believed() {
    let (old, new) = (TestServer::start(&[]), TestServer::start(&[]));
    let (first, second) = (Played::start(&old, 1).await, Played::start(&old, 1).await);
    let link = link(&[&first, &second]);
    link.ready().await.unwrap();
    until_on(&link, &old).await;
    first.say(&new, 2);
    let took = until_on(&link, &new).await;
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    // The second alone still names the old one.
    first.stop();
    tokio::time::sleep(Duration::from_millis(150)).await;
    kill_connection(&link, &new).await;
    until_on(&link, &new).await;
    // Where no sentinel answers, the last master is taken.
    second.stop();
    tokio::time::sleep(Duration::from_millis(150)).await;
    kill_connection(&link, &new).await;
    until_on(&link, &new).await;
}

/// Ends the connection, which has just been used.
async fn kill_connection(link: &Link, server: &TestServer) {
    let connection = link.connected().await.unwrap();
    connection.send(&cmd("PING")).await.unwrap();
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    while !connection.has_ended() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_server_that_is_no_master_is_not_used() {
    let (master, replica) = (TestServer::start(&[]), TestServer::start(&["--replicaof", "127.0.0.1", "1"]));
    let sentinel = Played::start(&replica, 1).await;
    let link = link(&[&sentinel]);
    assert!(link.connected().await.is_err());
    let LinkStatus::Away(error) = link.status() else { panic!("{:?}", link.status()) };
    assert_eq!(error.message(), "Redis is not the master that Sentinel takes it for");
    sentinel.say(&master, 2);
    until_on(&link, &master).await;
}

#[tokio::test]
async fn what_is_asked_has_to_be_a_sentinel() {
    let server = TestServer::start(&[]);
    let url = format!("redis+sentinel://127.0.0.1:{}/main", server.port);
    let Ok(Deployment::Sentinel(watched)) = Deployment::from_url(&url) else { panic!("{url}") };
    let link = Link::start(LinkSettings::new(Arc::new(Sentinels::new(&watched))), &tokio::runtime::Handle::current());
    let error = link.ready().await.unwrap_err();
    assert!(error.kind() == StoreErrorKind::Misconfigured && error.message().contains("is no sentinel"), "{error}");
}

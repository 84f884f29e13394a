//! Names that lead nowhere, or elsewhere. A library that is loaded before all others
//! (`nss_wrapper`) takes the place of the system's resolver in a process of its own.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::harness::{Row, Tally, nothing_is_left_on};
use crate::support::eventually;
use crate::support::redis::RedisServer;
use crate::support::unique;
use crate::support::worker::Worker;

const NAME: &str = "redis.limits.test";
/// Where packages put the library.
const LIBRARY: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libnss_wrapper.so",
    "/usr/lib/aarch64-linux-gnu/libnss_wrapper.so",
    "/usr/lib64/libnss_wrapper.so",
    "/usr/lib/libnss_wrapper.so",
];
const MISSING: &str =
    "libnss_wrapper is not installed (Debian, Ubuntu: apt-get install libnss-wrapper)";

/// Attempts go on with pauses of up to a second.
const RECOVERY: Duration = Duration::from_secs(2);

/// A hosts file of a test's own.
struct Hosts {
    path: PathBuf,
    library: &'static str,
    changes: u64,
}

impl Hosts {
    /// In which nothing is named.
    fn new() -> Self {
        let library = LIBRARY
            .into_iter()
            .find(|path| Path::new(path).exists())
            .expect(MISSING);
        let mut hosts = Self {
            path: std::env::temp_dir().join(unique("ratelimit-hosts")),
            library,
            changes: 0,
        };
        hosts.write("127.0.0.1 localhost\n");
        hosts
    }

    fn lead_to(&mut self, address: Ipv4Addr) {
        self.write(&format!("{address} {NAME}\n"));
    }

    /// Takes the place of the old one at once. Its time is another, to the second: that is what the
    /// library looks at.
    fn write(&mut self, text: &str) {
        let new = self.path.with_extension("new");
        fs::write(&new, text).unwrap();
        self.changes += 1;
        let time = SystemTime::now() + Duration::from_secs(self.changes * 10);
        File::options()
            .write(true)
            .open(&new)
            .unwrap()
            .set_modified(time)
            .unwrap();
        fs::rename(&new, &self.path).unwrap();
    }

    fn worker(&self, url: &str, policy: &str) -> Worker {
        let hosts = self.path.to_str().unwrap();
        Worker::start_in(
            &[("LD_PRELOAD", self.library), ("NSS_WRAPPER_HOSTS", hosts)],
            &["trace", url, policy],
        )
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Follows a worker's calls until the store answers, or does not.
fn until(tally: &mut Tally, worker: &mut Worker, by_store: bool) {
    let start = Instant::now();
    loop {
        let line = worker.line();
        let (took, by) = line
            .split_once(' ')
            .unwrap_or_else(|| panic!("the worker has ended: {line:?}"));
        tally.add(
            Duration::from_micros(took.parse().unwrap()),
            &by.to_lowercase(),
        );
        if (by == "Store") == by_store {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "it does not come"
        );
    }
}

/// A service that starts before its name is known waits for it, and is answered by policy.
pub(crate) async fn resolved_late() -> Row {
    const FAULT: &str = "a name that resolves 1 s after the service has started (`local`)";
    let mut hosts = Hosts::new();
    let server = RedisServer::start();
    let mut worker = hosts.worker(&format!("redis://{NAME}:{}/", server.port()), "local");
    let mut trace = Tally::default();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        until(&mut trace, &mut worker, false);
    }
    hosts.lead_to(Ipv4Addr::LOCALHOST);
    let healed = Instant::now();
    until(&mut trace, &mut worker, true);
    let took = healed.elapsed();
    assert!(took < RECOVERY, "{took:?}");
    assert!(!trace.has("unavailable"));
    drop(worker);
    nothing_is_left_on(&server);
    trace.row(FAULT, took)
}

/// As a fail-over by DNS: the old master says READONLY, and the name is looked up anew.
pub(crate) async fn moved() -> Row {
    const FAULT: &str =
        "a name that moves from a master that has become a replica to the new master (`deny`)";
    let mut hosts = Hosts::new();
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let (here, there) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let port = forward(here, 0, old.port()).await;
    forward(there, port, new.port()).await;
    hosts.lead_to(here);
    let mut worker = hosts.worker(&format!("redis://{NAME}:{port}/"), "deny");
    let mut trace = Tally::default();
    until(&mut trace, &mut worker, true);
    let until_later = |trace: &mut Tally, worker: &mut Worker| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            until(trace, worker, true);
        }
    };
    until_later(&mut trace, &mut worker);
    old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    until(&mut trace, &mut worker, false);
    sleep(Duration::from_millis(300)).await;
    hosts.lead_to(there);
    let healed = Instant::now();
    assert!(
        eventually(|| new.number(&["DBSIZE"]) > 0),
        "calls are counted on the new master"
    );
    let took = healed.elapsed();
    assert!(took < RECOVERY, "{took:?}");
    until_later(&mut trace, &mut worker);
    assert!(!trace.has("fallback") && !trace.has("nobody"));
    drop(worker);
    nothing_is_left_on(&new);
    trace.row(FAULT, took)
}

/// Leads connections to this address on to a server on the local host. Gives the port.
async fn forward(address: Ipv4Addr, port: u16, server: u16) -> u16 {
    let listener = TcpListener::bind((address, port)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))
                    .await
                    .unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    port
}

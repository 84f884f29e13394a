//! Processes and connections that end at any moment: no key without an expiry, no admission too
//! many.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{
    Algorithm, Key, Limit, OnUnavailable, RateLimitError, RedisMode, RedisStore, Rule, Source, Store,
};

use crate::support::{eventually, strict};

use super::{RedisServer, unique, url, without_scripts};

/// `tests/bin/plain_worker.rs`.
struct Worker(Child);

impl Worker {
    fn start(url: &str, algorithm: &str, key: &str, max: usize) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plain_worker"));
        command.args([url, algorithm, key, &max.to_string()]).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Kills the process (SIGKILL); says how often it was admitted.
    fn kill(mut self) -> usize {
        self.0.kill().unwrap();
        let mut printed = Vec::new();
        self.0.stdout.take().unwrap().read_to_end(&mut printed).unwrap();
        printed.len()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many keys there are; all of them expire.
fn expiring_keys(server: &RedisServer) -> u64 {
    let keyspace = server.cli(&["INFO", "keyspace"]);
    let field = |name: &str| {
        let (_, rest) = keyspace.split_once(name)?;
        rest.split(',').next()?.parse::<u64>().ok()
    };
    assert_eq!(field("keys="), field("expires="), "{keyspace}");
    field("keys=").unwrap_or(0)
}

fn used(server: &RedisServer, algorithm: &str, key: &str) -> usize {
    let used = match algorithm {
        "log" => server.cli(&["ZCARD", &format!("{key}%log")]),
        _ => server.cli(&["BITFIELD_RO", &format!("{key}%plain"), "GET", "u63", "1"]),
    };
    used.parse().unwrap()
}

fn killed_processes(algorithm: &str) {
    const MAX: usize = 1_500;
    let server = without_scripts();
    let key = unique("killed");
    let mut admitted = 0;
    for millis in [1, 4, 11, 30] {
        let before = expiring_keys(&server);
        let workers = [(); 2].map(|()| Worker::start(&url(&server), algorithm, &key, MAX));
        assert!(eventually(|| expiring_keys(&server) > before + 8), "the workers write");
        for _ in 0..millis {
            expiring_keys(&server);
            thread::sleep(Duration::from_millis(1));
        }
        admitted += workers.into_iter().map(Worker::kill).sum::<usize>();
        assert!(admitted <= MAX, "{admitted} of {MAX} were admitted");
        expiring_keys(&server);
        assert!(used(&server, algorithm, &key) >= admitted, "who was admitted was charged");
    }
    let workers = [(); 2].map(|()| Worker::start(&url(&server), algorithm, &key, MAX));
    assert!(eventually(|| used(&server, algorithm, &key) == MAX), "{} used", used(&server, algorithm, &key));
    thread::sleep(Duration::from_millis(50));
    admitted += workers.into_iter().map(Worker::kill).sum::<usize>();
    assert!(admitted <= MAX, "{admitted} of {MAX} were admitted");
    assert_eq!(used(&server, algorithm, &key), MAX, "and not one is charged too many");
    expiring_keys(&server);
}

#[test]
fn killed_processes_leave_logs_that_expire() {
    killed_processes("log");
}

#[test]
fn killed_processes_leave_counters_that_expire() {
    killed_processes("counter");
}

/// Passes connections on to `port`, and cuts them all once the clients have sent as many bytes as
/// are left; more than that never arrives. Below zero, everything passes.
fn cutting_proxy(port: u16, left: Arc<AtomicI64>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (to, from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let left = Arc::clone(&left);
            thread::spawn(move || pass(from, to, &left));
            thread::spawn(move || pass(server, client, &AtomicI64::new(-1)));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, left: &AtomicI64) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let allowed = match left.load(Ordering::SeqCst) {
            ..0 => count,
            left => usize::try_from(left).unwrap().min(count),
        };
        if to.write_all(&buffer[..allowed]).is_err() || allowed < count {
            break;
        }
        let _ = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            (left >= 0).then(|| left - i64::try_from(count).unwrap())
        });
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A process that dies is a connection that ends in the middle of what it was sending. Here it does
/// so behind every few bytes of an admission.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_anywhere_leaves_all_or_nothing() {
    let server = without_scripts();
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
        let (mut charged, mut lost, mut done) = (0, 0, 0);
        for bytes in (0..1_700).step_by(15) {
            let left = Arc::new(AtomicI64::new(-1));
            let proxy = cutting_proxy(server.port(), Arc::clone(&left));
            let store = RedisStore::new(&format!("redis://plain:secret@127.0.0.1:{proxy}/"))
                .unwrap()
                .mode(RedisMode::Transactions);
            let key = unique("cut");
            let limits = [Limit::per_minute(5)];
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            // Connects all it needs, and writes once.
            store.ready().await.unwrap();
            assert!(store.acquire(request).await.unwrap().allowed);
            left.store(bytes, Ordering::SeqCst);
            let cut = tokio::time::timeout(Duration::from_secs(5), store.acquire(request)).await.unwrap();
            left.store(-1, Ordering::SeqCst);
            let direct = RedisStore::new(&url(&server)).unwrap().mode(RedisMode::Transactions);
            direct.ready().await.unwrap();
            let remaining = direct.peek(request).await.unwrap().remaining;
            match cut {
                Ok(verdict) => {
                    assert!(verdict.allowed);
                    assert_eq!(remaining, 3);
                    done += 1;
                }
                Err(error) => {
                    // The connection of its own was lost, or that of the link.
                    let kinds = [StoreErrorKind::Unavailable, StoreErrorKind::TimedOut];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    assert!([3, 4].contains(&remaining), "{remaining}");
                    charged += u32::from(remaining == 3);
                    lost += u32::from(remaining == 4);
                }
            }
            expiring_keys(&server);
        }
        assert!(lost > 5 && done > 5, "the cuts were not in the middle: {lost} lost, {charged} charged, {done} done");
    }
}

/// The connection of a cancelled caller is not used again, and its charge counts at most once.
#[tokio::test(flavor = "multi_thread")]
async fn callers_who_give_up_do_no_harm() {
    let server = without_scripts();
    let store = Arc::new(RedisStore::new(&url(&server)).unwrap().mode(RedisMode::Transactions));
    let limits = [Limit::per_hour(10_000)];
    for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow] {
        let key = unique("impatient");
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let mut answered = 0;
        for nth in 0..300_u64 {
            let patience = Duration::from_micros(nth * 3);
            if let Ok(verdict) = tokio::time::timeout(patience, store.acquire(request)).await {
                assert!(verdict.unwrap().allowed);
                answered += 1;
            }
        }
        let verdict = store.acquire(request).await.unwrap();
        let used = 10_000 - verdict.remaining;
        assert!((answered + 1..=301).contains(&used), "{used} used, {answered} answered");
        expiring_keys(&server);
    }
    // Nothing is left of the connections that were given up.
    assert!(eventually(|| server.cli(&["CLIENT", "LIST"]).lines().count() <= 12), "connections are closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_told_at_once_and_ends_by_itself() {
    let mut server = without_scripts();
    let store = RedisStore::new(&server.url()).unwrap().mode(RedisMode::Transactions);
    let limits = [Limit::per_hour(100)];
    let request = Request::new(b"outage", Algorithm::SlidingWindow, &limits);
    assert!(store.acquire(request).await.unwrap().allowed);
    server.stop();
    for _ in 0..20 {
        let answer = tokio::time::timeout(Duration::from_secs(2), store.acquire(request)).await;
        assert_eq!(answer.unwrap().unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    server.restart();
    tokio::time::timeout(Duration::from_secs(10), store.ready()).await.unwrap().unwrap();
    assert_eq!(store.acquire(request).await.unwrap().remaining, 99);
}

/// A flood that takes all connections of a server must not switch limits off.
#[tokio::test]
async fn a_server_without_room_for_another_connection_lets_no_call_through_unchecked() {
    let server = without_scripts();
    let store = RedisStore::new(&url(&server)).unwrap().mode(RedisMode::Transactions);
    let limiter = strict().store(store).on_unavailable(OnUnavailable::Allow).build().unwrap();
    limiter.ready().await.unwrap();
    assert_eq!(server.cli(&["CONFIG", "SET", "maxclients", "1"]), "OK");
    let rule = Rule::new("login", Limit::per_hour(2));
    let mut admitted = 0;
    for _ in 0..10 {
        match limiter.acquire(&rule, &Key::of("alice")).await {
            Ok(decision) => {
                assert_eq!(decision.source(), Source::Fallback, "{decision:?}");
                admitted += 1;
            }
            Err(RateLimitError::Exceeded(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(admitted, 2);
}

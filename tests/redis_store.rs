//! The Redis store against real servers, beyond the conformance suite: what it leaves on the server, and what it does
//! when the server is not well. `RATELIMIT_TEST_REDIS_BIN` chooses another server binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_runtime::store::{Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use support::redis::{RedisServer, shared};
use support::unique;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const MINUTE: Duration = Duration::from_secs(60);
const MICROSECOND: Duration = Duration::from_micros(1);
/// What a limiter would grant a call.
const DEADLINE: Duration = Duration::from_millis(100);
/// What a fault may take to heal. Far above what it takes, for slow machines.
const PATIENCE: Duration = Duration::from_secs(10);

async fn store_with_fake_clock() -> (RedisStore, FakeClock) {
    let clock = FakeClock::new();
    let store = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone());
    store.ready().await.unwrap();
    (store, clock)
}

async fn acquire(store: &RedisStore, key: &str, limit: Limit) -> Result<Verdict, StoreError> {
    store.acquire(Request::new(key.as_bytes(), Algorithm::SlidingWindow, &[limit]).with_unit_log(true)).await
}

async fn peek(store: &RedisStore, key: &str, limit: Limit) -> Result<Verdict, StoreError> {
    store.peek(Request::new(key.as_bytes(), Algorithm::SlidingWindow, &[limit]).with_unit_log(true)).await
}

/// As a limiter would call: dropped at the deadline.
async fn acquire_in_time(store: &RedisStore, key: &str) -> Result<Verdict, StoreError> {
    let limit = Limit::new(1_000_000, MINUTE);
    timeout(DEADLINE, acquire(store, key, limit)).await.unwrap_or_else(|_| {
        store.overdue(&Request::new(key.as_bytes(), Algorithm::SlidingWindow, &[limit]), DEADLINE);
        Err(StoreError::unavailable("deadline"))
    })
}

/// Calls until one succeeds; says how long that took.
async fn recovered(store: &RedisStore, key: &str) -> Duration {
    let start = Instant::now();
    loop {
        match acquire_in_time(store, key).await {
            Ok(_) => return start.elapsed(),
            Err(error) if start.elapsed() > PATIENCE => panic!("no recovery: {error}"),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

fn number(server: &RedisServer, command: &[&str]) -> i64 {
    let reply = server.cli(command);
    reply.parse().unwrap_or_else(|_| panic!("{command:?} gave {reply}"))
}

/// One field of a section of INFO.
fn info(server: &RedisServer, section: &str, field: &str) -> String {
    let info = server.cli(&["INFO", section]);
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

// What is admitted, and what stays on the server.

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_thousand_concurrent_calls_are_counted_exactly() {
    let server = shared();
    let store = Arc::new(RedisStore::new(&server.url()).unwrap());
    let (key, limit) = (unique("concurrent"), Limit::new(7_000, MINUTE));
    let mut calls = JoinSet::new();
    for _ in 0..20_000 {
        let (store, key) = (Arc::clone(&store), key.clone());
        calls.spawn(async move { acquire(&store, &key, limit).await.unwrap().allowed });
    }
    let admitted = calls.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(admitted, 7_000);
    assert_eq!(number(server, &["ZCARD", &key]), 7_000);
}

#[tokio::test]
async fn the_servers_clock_frees_a_slot_at_the_promised_microsecond() {
    let store = RedisStore::new(&shared().url()).unwrap();
    let (key, limit) = (unique("promise"), Limit::new(1, Duration::from_millis(100)));
    let mut promises = 0;
    for _ in 0..6 {
        let asked = Instant::now();
        let refused = acquire(&store, &key, limit).await.unwrap();
        if refused.allowed {
            // The first call, or one after the machine stood still for a whole window.
            continue;
        }
        promises += 1;
        assert!(refused.retry_after_us > 0 && refused.retry_after_us <= 100_000, "{refused:?}");
        let earliest = asked + refused.retry_after();
        // Until the promised moment every answer is a refusal, whatever the key's expiry does.
        loop {
            let verdict = acquire(&store, &key, limit).await.unwrap();
            let received = Instant::now();
            if verdict.allowed {
                assert!(received >= earliest, "admitted {:?} early", earliest - received);
                break;
            }
            assert!(received < earliest + PATIENCE, "never admitted");
        }
    }
    assert!(promises > 0);
}

#[tokio::test]
async fn the_log_never_outgrows_max_or_outlives_the_window() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (key, max) = (unique("bounds"), 100);
    let limit = Limit::new(max, MINUTE);
    for call in 0..1_500_u64 {
        let verdict = acquire(&store, &key, limit).await.unwrap();
        if call % 7 == 0 {
            let _ = peek(&store, &key, limit).await.unwrap();
        }
        let card = number(server, &["ZCARD", &key]);
        assert!(card <= i64::try_from(max).unwrap(), "{card} entries after call {call}, {verdict:?}");
        let ttl = number(server, &["PTTL", &key]);
        assert!((1..=60_000).contains(&ttl), "{ttl} ms left after call {call}");
        // On average a little less than `max` calls come in a minute, at times in the same microsecond.
        clock.advance(Duration::from_micros(call * 7_919_993 % 1_100_000 * (call % 3)));
    }
}

#[tokio::test]
async fn a_log_whose_newest_entry_has_expired_starts_anew() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (key, limit) = (unique("anew"), Limit::new(300, MINUTE));
    for _ in 0..300 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    // More than 128 entries make a skip list, and Redis never turns one back.
    assert_eq!(server.cli(&["OBJECT", "ENCODING", &key]), "skiplist");
    clock.advance(MINUTE + MICROSECOND * 300);
    assert_eq!(peek(&store, &key, limit).await.unwrap().remaining, 300);
    assert_eq!(number(server, &["ZCARD", &key]), 300, "a peek writes nothing");
    assert_eq!(acquire(&store, &key, limit).await.unwrap().remaining, 299);
    assert_eq!(number(server, &["ZCARD", &key]), 1);
    assert_ne!(server.cli(&["OBJECT", "ENCODING", &key]), "skiplist");
}

#[tokio::test]
async fn expired_entries_go_in_bounded_portions() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (key, limit) = (unique("portions"), Limit::new(500, MINUTE));
    for _ in 0..499 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    clock.advance(MINUTE / 2);
    assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    clock.advance(MINUTE / 2 + MICROSECOND * 500);
    // 499 of 500 have expired.
    assert_eq!(acquire(&store, &key, limit).await.unwrap().remaining, 498);
    assert_eq!(number(server, &["ZCARD", &key]), 500 + 1 - 64);
}

#[tokio::test]
async fn members_are_unique_integers_and_scores_the_exact_time() {
    let server = shared();
    let (store, _clock) = store_with_fake_clock().await;
    let (key, limit) = (unique("members"), Limit::new(3, MINUTE));
    for _ in 0..3 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    let log = server.cli(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
    let start = 1_700_000_000_000_000_u64;
    let expected = (start..start + 3).map(|member| format!("{member}\n{start}")).collect::<Vec<_>>().join("\n");
    assert_eq!(log, expected);
}

#[tokio::test]
async fn a_heavy_call_takes_as_many_members() {
    let server = shared();
    let (store, _clock) = store_with_fake_clock().await;
    let (key, limits) = (unique("heavy"), [Limit::new(2_000, MINUTE)]);
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits).with_unit_log(true).with_cost(1_000);
    assert_eq!(store.acquire(request).await.unwrap().remaining, 1_000);
    assert_eq!(store.acquire(request).await.unwrap().remaining, 0);
    assert!(!store.acquire(request).await.unwrap().allowed);
    assert_eq!(number(server, &["ZCARD", &key]), 2_000);
}

#[tokio::test]
async fn refusals_and_peeks_write_nothing() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let (key, limit) = (unique("quiet"), Limit::new(2, MINUTE));
    for _ in 0..2 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    let before = info(&server, "persistence", "rdb_changes_since_last_save");
    assert_ne!(before, "0");
    for _ in 0..10 {
        assert!(!acquire(&store, &key, limit).await.unwrap().allowed);
        assert!(!peek(&store, &key, limit).await.unwrap().allowed);
        assert!(peek(&store, &unique("nobody"), limit).await.unwrap().allowed);
    }
    assert_eq!(info(&server, "persistence", "rdb_changes_since_last_save"), before);
}

#[tokio::test]
async fn a_clock_that_steps_back_never_lengthens_a_keys_life() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (full, limit) = (unique("stepped-full"), Limit::new(2, MINUTE));
    let open = unique("stepped-open");
    for key in [&full, &full, &open] {
        assert!(acquire(&store, key, limit).await.unwrap().allowed);
    }
    clock.step_back(MINUTE * 10);
    for key in [&full, &open] {
        // A server whose clock is set back by ten minutes shows such a key with that much more to live.
        assert_eq!(server.cli(&["PEXPIRE", key, "660000"]), "1");
        let verdict = peek(&store, key, limit).await.unwrap();
        let ttl = number(server, &["PTTL", key]);
        assert!((1..=60_000).contains(&ttl), "{ttl} ms left");
        assert!(verdict.retry_after_us <= 60_001_000, "{verdict:?}");
        assert!(verdict.reset_after_us <= 60_001_000, "{verdict:?}");
    }
    assert!(!acquire(&store, &full, limit).await.unwrap().allowed, "what was admitted still counts");
    assert!(acquire(&store, &open, limit).await.unwrap().allowed);
    assert!(!acquire(&store, &open, limit).await.unwrap().allowed);
}

#[tokio::test]
async fn reset_says_whether_there_was_anything() {
    let store = RedisStore::new(&shared().url()).unwrap();
    let (key, limits) = (unique("reset"), [Limit::new(1, MINUTE)]);
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits).with_unit_log(true);
    assert!(!store.reset(request).await.unwrap());
    assert!(store.acquire(request).await.unwrap().allowed);
    assert!(!store.acquire(request).await.unwrap().allowed);
    assert!(store.reset(request).await.unwrap());
    assert!(store.acquire(request).await.unwrap().allowed);
}

// The way there.

#[tokio::test]
async fn a_flushed_script_cache_costs_one_more_command_and_no_error() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let (key, limit) = (unique("flush"), Limit::new(100, MINUTE));
    let calls = |command: &str| {
        let stats = info(&server, "commandstats", &format!("cmdstat_{command}"));
        stats.strip_prefix("calls=").and_then(|s| s.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    for flush in 1..=3 {
        for _ in 0..10 {
            assert!(acquire(&store, &key, limit).await.unwrap().allowed);
        }
        assert_eq!((calls("evalsha"), calls("eval")), (flush * 10, flush));
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    }
}

#[tokio::test]
async fn resp2_works_too() {
    let store = RedisStore::new(&format!("{}?protocol=resp2", shared().url())).unwrap();
    store.ready().await.unwrap();
    let (key, limit) = (unique("resp2"), Limit::new(1, MINUTE));
    assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    assert!(!acquire(&store, &key, limit).await.unwrap().allowed);
}

#[test]
fn each_runtime_has_its_connection_and_takes_it_along() {
    let server = RedisServer::start();
    let store = Arc::new(RedisStore::new(&server.url()).unwrap());
    let (key, limit) = (unique("runtimes"), Limit::new(1_000, MINUTE));
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // One of them is the one that asks.
    let clients = || number_of(&info(&server, "clients", "connected_clients")) - 1;

    let (first, second) = (runtime(), runtime());
    for runtime in [&first, &second, &first] {
        assert!(runtime.block_on(acquire(&store, &key, limit)).unwrap().allowed);
    }
    assert_eq!(clients(), 2);
    drop(first);
    assert!(eventually(|| clients() == 1), "the connection of a dead runtime is closed");
    assert!(second.block_on(acquire(&store, &key, limit)).unwrap().allowed);
    for _ in 0..3 {
        assert!(runtime().block_on(acquire(&store, &key, limit)).unwrap().allowed);
    }
    assert!(eventually(|| clients() == 1));
    drop(store);
    assert!(eventually(|| clients() == 0), "the store closes its connections");
    assert_eq!(number(&server, &["ZCARD", &key]), 7);
}

fn number_of(text: &str) -> i64 {
    text.parse().unwrap()
}

fn eventually(done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn without_a_runtime_the_error_says_so() {
    let store = RedisStore::new("redis://127.0.0.1/").unwrap();
    let limits = [Limit::new(1, MINUTE)];
    let mut answer = store.acquire(Request::new(b"k", Algorithm::SlidingWindow, &limits).with_unit_log(true));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(&mut answer).poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.message().contains("tokio runtime"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_runtime_without_io_is_named_as_the_cause() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = RedisStore::new(&shared().url()).unwrap();
    let error = runtime.block_on(acquire(&store, "k", Limit::new(1, MINUTE))).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.message().contains("enable_all"), "{error}");
}

// Servers that are not well.

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
        for _ in 0..3 {
            assert_eq!(acquire_in_time(&store, &key).await.unwrap_err().message(), "deadline");
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
    let connections = || info(&server, "stats", "total_connections_received");
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
    let own = || number_of(&info(&server, "stats", "total_connections_received"));
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

// Settings that are wrong: reported as that, at once, and without giving anything away.

async fn misconfigured(url: &str) -> StoreError {
    let store = RedisStore::new(url).unwrap();
    let error = timeout(PATIENCE, store.ready()).await.expect("ready does not wait for the hopeless").unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    let called = acquire_in_time(&store, "k").await.unwrap_err();
    assert_eq!(called.kind(), StoreErrorKind::Misconfigured, "{called}");
    assert!(!format!("{error:?} {called:?} {store:?}").contains("hunter2"), "{error:?}");
    error
}

#[tokio::test]
async fn wrong_and_missing_passwords() {
    let server = RedisServer::start_with(&["--requirepass", "correct"]);
    let port = server.port();
    for protocol in ["2", "3"] {
        let wrong = misconfigured(&format!("redis://:hunter2@127.0.0.1:{port}/?protocol={protocol}")).await;
        assert!(wrong.message().contains("password"), "{wrong}");
        let missing = misconfigured(&format!("redis://127.0.0.1:{port}/?protocol={protocol}")).await;
        assert!(missing.message().contains("password"), "{missing}");
        let right = RedisStore::new(&format!("redis://:correct@127.0.0.1:{port}/?protocol={protocol}")).unwrap();
        right.ready().await.unwrap();
    }
}

#[tokio::test]
async fn a_database_that_does_not_exist() {
    let error = misconfigured(&format!("{}99", shared().url())).await;
    assert!(error.message().contains("database"), "{error}");
}

#[tokio::test]
async fn a_user_who_may_not_do_what_the_script_does() {
    let server = RedisServer::start();
    let limit = Limit::new(1, MINUTE);
    let users = [
        ("noscript", "+@all -@scripting", "NOPERM"),
        ("nowrite", "+@all -zadd", "ACL"),
        ("nokeys", "+@all resetkeys ~other:*", "NOPERM"),
    ];
    for (user, permissions, expected) in users {
        let mut command = vec!["ACL", "SETUSER", user, "on", ">pw", "~*"];
        command.extend(permissions.split(' '));
        assert_eq!(server.cli(&command), "OK");
        let store = RedisStore::new(&format!("redis://{user}:pw@127.0.0.1:{}/", server.port())).unwrap();
        store.ready().await.unwrap();
        let error = acquire(&store, "alice", limit).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{user}: {error}");
        assert!(error.message().contains(expected), "{user}: {error}");
        assert!(!format!("{error:?}").contains("alice"), "{error:?}");
    }
}

#[tokio::test]
async fn a_key_that_holds_something_else() {
    let server = shared();
    let store = RedisStore::new(&server.url()).unwrap();
    let (text, foreign) = (unique("text"), unique("foreign"));
    server.cli(&["SET", &text, "hello"]);
    server.cli(&["ZADD", &foreign, "1", "alice"]);
    for key in [text, foreign] {
        let error = acquire(&store, &key, Limit::new(1, MINUTE)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains("prefix"), "says what to do: {error}");
        assert!(!error.message().contains(&key), "{error}");
        server.cli(&["DEL", &key]);
    }
}

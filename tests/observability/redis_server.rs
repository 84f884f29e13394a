//! Decisions by a real Redis, its connections, and an outage, as Prometheus gets them.

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::{Key, Limit, RateLimiter, Rule, Source};
use tokio::sync::{Barrier, Mutex};

use crate::samples::{Samples, record};
use crate::support::redis::RedisServer;
use crate::support::{settled, unique};

/// What commands carry is counted for the process as a whole, so tests on Redis go one after the
/// other.
pub(crate) static ALONE: Mutex<()> = Mutex::const_new(());

/// Waits for what happens on the other side of a connection.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}: never");
}

pub(crate) fn limiter(server: &RedisServer) -> RateLimiter {
    let builder = RateLimiter::builder()
        .redis(&server.url())
        .prefix(unique("observability"));
    builder.timeout(Duration::from_millis(150)).build().unwrap()
}

/// Calls until units that were taken ahead are spent, and gives back what is left of them.
pub(crate) async fn take_ahead(limiter: &RateLimiter) {
    let rule = Rule::named(unique("ahead"), Limit::per_hour(1_000));
    let rule = rule.with_prefetch(Duration::from_secs(1));
    for _ in 0..200 {
        let admitted = limiter.acquire(&rule, &Key::global()).await.unwrap();
        if admitted.source() == Source::Grant {
            return settled(limiter).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is taken ahead");
}

/// From then on the server knows the script; until then a command may be sent twice.
async fn warm(limiter: &RateLimiter) {
    limiter.ready().await.unwrap();
    drop(
        limiter
            .acquire(
                &Rule::named(unique("warm"), Limit::per_hour(1)),
                &Key::global(),
            )
            .await,
    );
}

/// How many connections to the server are in each state: connecting, up, slow, down.
fn states(server: &RedisServer) -> [f64; 4] {
    let samples = Samples::now();
    let in_state = |state: &str| {
        samples.sum(
            "ratelimit_connections",
            &[("server", &server.address()), ("state", state)],
        )
    };
    ["connecting", "up", "slow", "down"].map(in_state)
}

/// How often an answer of the server, or an error of this kind, was waited for.
fn waits(server: &RedisServer, result: &str) -> f64 {
    let labels = [("server", &*server.address()), ("result", result)];
    Samples::now().sum("ratelimit_store_seconds_count", &labels)
}

fn counted(name: &str, server: &RedisServer) -> f64 {
    Samples::now().sum(name, &[("server", &server.address())])
}

const UP: [f64; 4] = [0.0, 1.0, 0.0, 0.0];
const SLOW: [f64; 4] = [0.0, 0.0, 1.0, 0.0];
const DOWN: [f64; 4] = [0.0, 0.0, 0.0, 1.0];
const GONE: [f64; 4] = [0.0; 4];

/// An outage, a server that hangs, and the return from both.
#[tokio::test]
async fn connections_and_outages_are_measured() {
    let _alone = ALONE.lock().await;
    record();
    let mut server = RedisServer::start();
    let limiter = limiter(&server);
    let rule = Rule::named(unique("outage"), Limit::per_hour(1_000_000));
    let by = |source: &str| {
        Samples::now().sum(
            "ratelimit_decisions_total",
            &[("rule", rule.name()), ("source", source)],
        )
    };
    let ask = || async { drop(limiter.acquire(&rule, &Key::global()).await) };
    limiter.ready().await.unwrap();
    ask().await;
    assert_eq!(states(&server), UP);
    assert_eq!(
        (counted("ratelimit_connects_total", &server), by("store")),
        (1.0, 1.0)
    );
    assert_eq!(counted("ratelimit_outages_total", &server), 0.0);

    server.stop();
    until("it is down", || states(&server) == DOWN).await;
    ask().await;
    assert_eq!((by("store"), by("fallback")), (1.0, 1.0));
    assert_eq!(waits(&server, "unavailable"), 0.0, "it is answered at once");
    assert_eq!(counted("ratelimit_connection_losses_total", &server), 1.0);
    assert_eq!(counted("ratelimit_outages_total", &server), 1.0);

    server.restart();
    limiter.ready().await.unwrap();
    assert_eq!(states(&server), UP);
    assert_eq!(counted("ratelimit_connects_total", &server), 2.0);

    server.freeze();
    ask().await;
    until("it is slow", || states(&server) == SLOW).await;
    assert!(waits(&server, "timed_out") >= 1.0);
    assert_eq!(counted("ratelimit_outages_total", &server), 2.0);
    server.thaw();
    limiter.ready().await.unwrap();
    until("it is up again", || states(&server) == UP).await;

    drop(limiter);
    until("no connection is open", || states(&server) == GONE).await;
}

/// However often the link connects to it meanwhile, and whether calls come or not.
#[tokio::test]
async fn a_master_that_becomes_a_replica_is_one_outage() {
    let _alone = ALONE.lock().await;
    record();
    let server = RedisServer::start();
    let limiter = limiter(&server);
    let rule = Rule::named(unique("replica"), Limit::per_hour(1_000_000));
    limiter.ready().await.unwrap();
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        drop(limiter.acquire(&rule, &Key::global()).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(counted("ratelimit_outages_total", &server), 1.0);
    assert!(
        counted("ratelimit_connects_total", &server) < 12.0,
        "no storm of connects"
    );
    let why = limiter.ready().await.unwrap_err().to_string();
    assert!(why.contains("replica"), "{why}");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    until("it is up again", || states(&server) == UP).await;
    assert_eq!(counted("ratelimit_outages_total", &server), 1.0);
    drop(limiter);
    until("no connection is open", || states(&server) == GONE).await;
}

/// Calls that come at once share commands, and each is counted.
#[tokio::test]
async fn calls_that_share_a_command_are_counted_each() {
    const CALLERS: u32 = 64;
    let _alone = ALONE.lock().await;
    record();
    let server = RedisServer::start();
    let limiter = limiter(&server);
    warm(&limiter).await;
    let (before, rule) = (
        Samples::now(),
        Arc::new(Rule::named(unique("hot"), Limit::per_hour(4))),
    );
    let start = Arc::new(Barrier::new(CALLERS as usize));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (limiter, rule, start) = (limiter.clone(), Arc::clone(&rule), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                drop(limiter.acquire(&rule, &Key::of("hot")).await);
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    // One of them asks again, because the admissions have made the cache forget; the others are
    // answered by it.
    for _ in 0..10 {
        let _ = limiter.acquire(&rule, &Key::of("hot")).await;
    }
    let after = Samples::now();
    let grown =
        |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    let decisions = |outcome: &str, source: &str| {
        grown(
            "ratelimit_decisions_total",
            &[
                ("rule", rule.name()),
                ("outcome", outcome),
                ("source", source),
            ],
        )
    };
    let (commands, carried) = (
        grown("ratelimit_command_decisions_count", &[]),
        grown("ratelimit_command_decisions_sum", &[]),
    );
    let cached = decisions("denied", "deny_cache");
    assert_eq!(
        decisions("allowed", "store") + decisions("near_limit", "store"),
        4.0
    );
    let all = f64::from(CALLERS) + 10.0;
    assert!(cached >= 9.0, "{cached} were cached");
    assert_eq!(decisions("denied", "store") + cached, all - 4.0);
    assert_eq!(
        carried,
        all - cached,
        "what the cache did not answer was carried"
    );
    assert!(
        commands >= 1.0 && commands * 4.0 < carried,
        "{commands} commands carried {carried}"
    );
    let address = server.address();
    let answered = [("result", "ok"), ("server", address.as_str())];
    assert_eq!(grown("ratelimit_store_seconds_count", &answered), carried);
    assert!(grown("ratelimit_store_seconds_sum", &answered) > 0.0);
}

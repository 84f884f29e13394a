//! What holds at the edges of an outage: for several processes, for blocks, for calls on their way,
//! for reservations.

use std::time::Duration;

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimiter, Rule};
use tokio::time::sleep;

use crate::harness::{Answered, Call, Load, Row, most_in_a_window, nothing_is_left_on};
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::unique;
use crate::support::worker::Worker;

/// What is asked by hand has time.
const PATIENT: Duration = Duration::from_secs(2);
const PROCESSES: usize = 3;
const MAX: usize = 20;
const WINDOW: Duration = Duration::from_secs(2);

/// The packets are dropped, and connecting takes minutes.
pub(crate) async fn an_address_without_a_host() -> Row {
    let load = Load::during_a_fault(|builder| builder.redis("redis://192.0.2.1:6379/"));
    load.go_on(Duration::from_millis(2_500)).await;
    let account = load.end().await;
    account.assert_felt();
    account.row("an address without a host, for 2.5 s")
}

/// With `local` and N processes, a window that touches an outage admits up to (N + 1) · `max`,
/// however often the outage comes and goes within it; with `deny` never more than `max`. The store
/// itself never admits more than `max`, so it is authoritative as soon as it is back.
pub(crate) async fn several_processes_and_an_outage_that_flaps() -> Vec<Row> {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let mut fleets = ["local", "allow", "deny"].map(|policy| Fleet::start(&proxy.url(), policy));
    fleets.iter_mut().for_each(Fleet::assert_ready);
    sleep(WINDOW).await;
    for _ in 0..4 {
        proxy.refuse(true);
        proxy.reset_all();
        sleep(Duration::from_millis(300)).await;
        proxy.refuse(false);
        sleep(Duration::from_millis(200)).await;
    }
    sleep(Duration::from_millis(1_100) + WINDOW).await;
    let rows = fleets.iter_mut().map(Fleet::row).collect();
    drop(fleets);
    nothing_is_left_on(&server);
    rows
}

/// Processes that share a limit, and a policy.
struct Fleet {
    policy: &'static str,
    workers: Vec<Worker>,
}

impl Fleet {
    fn start(url: &str, policy: &'static str) -> Self {
        let prefix = unique("fleet");
        let (max, window) = (MAX.to_string(), WINDOW.as_millis().to_string());
        let worker = |_| Worker::start(&["live", url, &prefix, policy, "4", &max, &window]);
        Self {
            policy,
            workers: (0..PROCESSES).map(worker).collect(),
        }
    }

    fn assert_ready(&mut self) {
        for worker in &mut self.workers {
            assert_eq!(worker.line(), "ready");
        }
    }

    fn row(&mut self) -> Row {
        let policy = self.policy;
        self.workers.iter_mut().for_each(Worker::go);
        let calls: Vec<Vec<Call>> = self
            .workers
            .iter_mut()
            .map(|worker| admissions(&worker.rest()))
            .collect();
        let most = |which: &dyn Fn(&Call) -> bool| {
            most_in_a_window(
                calls.iter().flatten().filter(|call| which(call)).collect(),
                WINDOW,
            )
        };
        let (by_store, by_all) = (
            most(&|call| call.by == Answered::Store),
            most(&|call| call.by != Answered::Nobody),
        );
        assert!(
            by_store <= MAX,
            "`{policy}`: the store admitted {by_store} of {MAX} in one window"
        );
        for of_one in &calls {
            let own = of_one
                .iter()
                .filter(|call| call.by == Answered::Fallback)
                .collect();
            let own = most_in_a_window(own, WINDOW);
            assert!(
                own <= MAX,
                "`{policy}`: one process admitted {own} of {MAX} in one window"
            );
        }
        let allowed = if policy == "deny" {
            MAX
        } else {
            MAX * (PROCESSES + 1)
        };
        assert!(
            by_all <= allowed,
            "`{policy}`: {by_all} of {allowed} were admitted in one window"
        );
        let count = |by| calls.iter().flatten().filter(|call| call.by == by).count();
        let (store, fallback, nobody) = (
            count(Answered::Store),
            count(Answered::Fallback),
            count(Answered::Nobody),
        );
        match policy {
            "local" => assert!(fallback > 0 && nobody == 0, "{fallback} {nobody}"),
            "allow" => assert!(nobody > 0),
            _ => assert_eq!(fallback + nobody, 0),
        }
        let row = Row::new(format!(
            "{PROCESSES} processes, `{policy}`, and connections reset for 300 ms four times in 2 s"
        ));
        row.admitted(format!(
            "{by_all} of {allowed}; by the store {by_store} of {MAX}"
        ))
        .seen(format!(
            "admitted by the store {store}, by fallbacks {fallback}, unchecked {nobody}"
        ))
    }
}

/// What a worker has printed.
fn admissions(printed: &str) -> Vec<Call> {
    let call = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let [times @ .., by] = words.as_slice() else {
            panic!("{line:?} is not an admission")
        };
        let times: Vec<_> = times
            .iter()
            .map(|time| Duration::from_nanos(time.parse().unwrap()))
            .collect();
        let [sent, set_sent, answered, set_answered] = times[..] else {
            panic!("{line:?} is not an admission")
        };
        let by = match *by {
            "store" => Answered::Store,
            "fallback" => Answered::Fallback,
            _ => Answered::Nobody,
        };
        Call {
            sent,
            answered,
            on_clock: [set_sent, set_answered],
            by,
            admitted: true,
            hot: true,
            error: None,
        }
    };
    printed.lines().map(call).collect()
}

/// A call whose reply is lost may have been charged, is not sent again, and is answered by policy,
/// at once.
pub(crate) async fn replies_that_are_lost() -> Row {
    const CALLS: u64 = 20;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let limiter = RateLimiter::builder()
        .redis(&proxy.url())
        .timeout(PATIENT)
        .build()
        .unwrap();
    let rule = Rule::new("lost", Limit::per_hour(1_000));
    limiter.ready().await.unwrap();
    assert!(
        limiter.acquire(&rule, &Key::global()).await.is_ok(),
        "the server knows the script"
    );
    for _ in 0..CALLS {
        limiter.ready().await.unwrap();
        // One that lasts so long was good, and is replaced at once.
        sleep(Duration::from_millis(120)).await;
        proxy.cut_replies(1);
        let decision = limiter.acquire(&rule, &Key::global()).await.unwrap();
        assert!(decision.is_degraded(), "{decision:?}");
    }
    limiter.ready().await.unwrap();
    let left = limiter.peek(&rule, &Key::global()).await.unwrap();
    assert!(
        (999 - CALLS..999).contains(&left.remaining()),
        "each ran at most once: {left:?}"
    );
    drop(limiter);
    nothing_is_left_on(&server);
    let calls = usize::try_from(CALLS).unwrap();
    Row::new("the reply to a call is cut in the middle")
        .calls(calls)
        .seen(format!("fallback {calls}; none charged twice"))
}

/// A block that was set while the store was away goes on in its process, and there only.
pub(crate) async fn blocks() -> Row {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let limiter = || {
        RateLimiter::builder()
            .redis(&proxy.url())
            .timeout(PATIENT)
            .build()
            .unwrap()
    };
    let (one, other) = (limiter(), limiter());
    let rule = Rule::new("blocks", Limit::new(1, Duration::from_millis(100)))
        .with_block(Duration::from_secs(2));
    one.ready().await.unwrap();
    other.ready().await.unwrap();
    cut_off(&proxy, &[&one, &other]).await;
    assert!(one.acquire(&rule, &Key::global()).await.is_ok());
    let blocked = one.acquire(&rule, &Key::global()).await.unwrap_err();
    assert!(blocked.decision().unwrap().is_blocked());
    proxy.refuse(false);
    one.ready().await.unwrap();
    other.ready().await.unwrap();
    // Long after its limit would admit it again.
    sleep(Duration::from_millis(300)).await;
    let refused = one.acquire(&rule, &Key::global()).await.unwrap_err();
    assert!(
        refused
            .decision()
            .is_some_and(|decision| decision.is_blocked() && !decision.is_degraded()),
        "{refused:?}"
    );
    assert!(
        !other
            .acquire(&rule, &Key::global())
            .await
            .unwrap()
            .is_degraded(),
        "the store knows of no block"
    );
    sleep(refused.retry_after().unwrap()).await;
    assert!(
        !one.acquire(&rule, &Key::global())
            .await
            .unwrap()
            .is_degraded(),
        "the block is over"
    );
    drop((one, other));
    nothing_is_left_on(&server);
    Row::new("a `block` set while the store is away")
        .seen("goes on in its process after the return, for as long as it was set")
}

/// A server, the way to it, and a limiter that comes that way.
pub(super) async fn behind_a_proxy() -> (RedisServer, Proxy, RateLimiter) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let limiter = RateLimiter::builder()
        .redis(&proxy.url())
        .timeout(PATIENT)
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    (server, proxy, limiter)
}

/// Takes the connections away, and waits until this is known.
pub(super) async fn cut_off(proxy: &Proxy, limiters: &[&RateLimiter]) {
    proxy.refuse(true);
    proxy.reset_all();
    let rule =
        Rule::new("probe", Limit::per_hour(1_000_000)).with_on_unavailable(OnUnavailable::Deny);
    for limiter in limiters {
        while limiter.peek(&rule, &Key::global()).await.is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

//! Calls and stacks that share commands: each is decided as if it had come alone, and
//! whatever happens to one of them happens to no other.

use std::collections::BTreeSet;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use super::{MINUTE, PATIENCE, acquire, number_of};
use crate::support::redis::RedisServer;
use futures_util::future::join_all;
use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Answer, Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How often the server was told a command.
fn calls(server: &RedisServer, command: &str) -> i64 {
    let stats = server.info("commandstats", &format!("cmdstat_{command}"));
    stats
        .strip_prefix("calls=")
        .and_then(|stats| stats.split(',').next())
        .map_or(0, number_of)
}

async fn on(server: &RedisServer) -> Arc<RedisStore> {
    let store = Arc::new(server.store());
    store.ready().await.unwrap();
    store
}

#[tokio::test]
async fn many_callers_of_one_key_are_few_commands_and_each_has_its_own_verdict() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let mut running = JoinSet::new();
    for _ in 0..512 {
        let store = Arc::clone(&store);
        running.spawn(async move {
            acquire(&store, "hot", Limit::new(400, MINUTE))
                .await
                .unwrap()
        });
    }
    let verdicts = running.join_all().await;
    let admitted = verdicts.iter().filter(|verdict| verdict.allowed);
    let left: BTreeSet<u64> = admitted.map(|verdict| verdict.remaining).collect();
    assert_eq!(left, (0..400).collect());
    let sent = calls(&server, "evalsha") + calls(&server, "eval");
    assert!(sent <= 8, "{sent} commands for 512 calls");
}

/// Of each algorithm, once its scripts are there; neither a call nor a stack is sent in parts.
#[tokio::test]
async fn a_check_is_one_command_and_so_is_a_stack() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(3, MINUTE * 60), Limit::new(9, MINUTE * 600)];
    let scripts = || calls(&server, "evalsha") + calls(&server, "eval");
    for &algorithm in Algorithm::ALL {
        let [one, another, third] =
            ["one", "another", "third"].map(|key| format!("{key}{algorithm}"));
        let request = |key| Request::new(str::as_bytes(key), algorithm, &limits);
        let stack = [request(&another), request(&third)];
        let mut admitted = 0;
        for round in 0..5 {
            let before = scripts();
            let verdict = store.acquire(request(&one)).await.unwrap();
            let between = scripts();
            let verdicts = store.acquire_all(None, &stack).await.unwrap().verdicts;
            let after = scripts();
            admitted += u64::from(verdict.allowed && verdicts.iter().all(|it| it.allowed));
            // What was refused is known.
            if round > 0 && !verdict.cached {
                let (lone, stacked) = (between - before, after - between);
                assert_eq!((lone, stacked), (1, 1), "{algorithm}");
            }
        }
        assert_eq!(admitted, 3, "{algorithm}");
    }
}

/// The first charges of keys that share a command count for as long as any.
#[tokio::test]
async fn keys_that_are_charged_together_live_as_long_as_they_count() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(2, MINUTE * 60)];
    for algorithm in [Algorithm::SlidingWindow, Algorithm::SlidingCounter] {
        let keys: Vec<_> = (0..32).map(|key| format!("{key}{algorithm}")).collect();
        let charge = |key| store.acquire(Request::new(str::as_bytes(key), algorithm, &limits));
        let verdicts = join_all(keys.iter().map(|key| charge(key))).await;
        for (verdict, key) in verdicts.into_iter().zip(&keys) {
            let counts = verdict.unwrap().reset_after_us / 1_000;
            let lives = server.number(&["PTTL", key]);
            let (counts, slack) = (i64::try_from(counts).unwrap(), 10_000);
            assert!(lives > counts - slack, "{algorithm}: {lives} of {counts}");
        }
    }
}

/// Polls once, as a caller does who is dropped then.
fn poll_once<T: Unpin>(answer: &mut Answer<'_, T>) {
    assert!(
        Pin::new(answer)
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
}

/// What calls are told that begin in this order, before the server has answered any of them. The
/// first is sent at once, unless the runtime was late and had to read first; the others wait for
/// its reply, and go in batches of at most half of all callers.
async fn told(mut answers: Vec<Answer<'_, Verdict>>) -> Vec<Result<Verdict, StoreError>> {
    answers.iter_mut().for_each(poll_once);
    let mut told = Vec::new();
    for answer in answers {
        told.push(answer.await);
    }
    told
}

#[tokio::test]
async fn callers_of_a_key_are_decided_in_their_order_whatever_each_asks() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(100, MINUTE)];
    let asked = [
        ("a", 1),
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("c", 1),
        ("a", 1),
        ("b", 1),
    ];
    let ask = |(key, cost): (&'static str, u64)| {
        store.acquire(Request::new(key.as_bytes(), Algorithm::FixedWindow, &limits).with_cost(cost))
    };
    let left = told(asked.map(ask).into())
        .await
        .into_iter()
        .map(|verdict| verdict.unwrap().remaining);
    assert_eq!(left.collect::<Vec<_>>(), [99, 98, 99, 96, 99, 95, 98]);
}

#[tokio::test]
async fn a_later_call_of_a_key_passes_none_that_is_about_to_be_sent() {
    let server = RedisServer::start();
    let store = on(&server).await;
    // A task has turns as other tasks have them.
    let later = tokio::spawn(async move {
        let limits = [Limit::new(100, MINUTE)];
        let mut later = Vec::new();
        for (turns, round) in (0..6).flat_map(|turns| (0..20).map(move |round| (turns, round))) {
            let key = format!("{turns}-{round}");
            let request = Request::new(key.as_bytes(), Algorithm::FixedWindow, &limits);
            // Not answered within the window, so it is charged. It is queued.
            let mut settles = store.settle(request, 1, 1);
            poll_once(&mut settles);
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            let until = Instant::now() + PATIENCE;
            let acquired = store.acquire(request.with_timeout_at(until));
            let (settled, acquired) = tokio::join!(settles, acquired);
            settled.unwrap();
            later.push(acquired.unwrap().remaining);
        }
        later
    });
    assert_eq!(later.await.unwrap(), [98; 120]);
}

#[tokio::test]
async fn a_call_has_at_most_64_keys_64_questions_and_1_000_units_of_logs() {
    use Algorithm::{FixedWindow, SlidingWindow};

    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(1_000_000, MINUTE)];
    let sent =
        async |callers: u64, algorithm: Algorithm, key: fn(u64) -> u64, cost: fn(u64) -> u64| {
            let before = calls(&server, "evalsha");
            let keys: Vec<_> = (0..callers)
                .map(|caller| format!("{algorithm:?}{}", key(caller)))
                .collect();
            let requests = (0..callers).zip(&keys).map(|(caller, key)| {
                Request::new(key.as_bytes(), algorithm, &limits).with_cost(cost(caller))
            });
            let verdicts = told(requests.map(|request| store.acquire(request)).collect()).await;
            assert!(verdicts.into_iter().all(|verdict| verdict.unwrap().allowed));
            calls(&server, "evalsha") - before
        };
    // Each with one caller more than fits.
    assert_eq!(
        sent(1 + 2 * 64, FixedWindow, |caller| caller, |_| 1).await,
        3,
        "64 keys"
    );
    assert_eq!(
        sent(1 + 2 * 64, FixedWindow, |_| 0, |caller| 1 + caller).await,
        3,
        "64 questions"
    );
    assert_eq!(
        sent(1 + 4 * 3, SlidingWindow, |caller| caller % 2, |_| 300).await,
        5,
        "1,000 units"
    );
    assert_eq!(
        sent(1 + 1_000, FixedWindow, |_| 0, |_| 1).await,
        2,
        "half of all callers"
    );
}

/// The cost of a call that has ended may be far above its estimate.
#[tokio::test]
async fn a_call_adds_at_most_1_000_units_of_actual_costs_to_logs() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(1_000_000, MINUTE)];
    let request = Request::new(b"key", Algorithm::SlidingWindow, &limits).reserving_estimate();
    let mut tickets = Vec::new();
    for _ in 0..9 {
        tickets.push(store.acquire(request).await.unwrap().ticket);
    }
    let before = calls(&server, "evalsha");
    let settled = tickets.into_iter();
    let settled = settled.map(|ticket| store.settle(request, ticket, 1_000));
    assert!(
        join_all(settled)
            .await
            .into_iter()
            .all(|it| it.unwrap().was_open)
    );
    assert_eq!(calls(&server, "evalsha") - before, 9);
}

#[tokio::test]
async fn a_caller_that_is_late_before_it_is_sent_is_not_sent() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(100, MINUTE)];
    let request = Request::new(b"key", Algorithm::SlidingWindow, &limits);
    let late = request.with_timeout_at(Instant::now());
    let verdicts = told(
        [request, late, request]
            .map(|request| store.acquire(request))
            .into(),
    )
    .await;
    let kinds = verdicts.into_iter().map(|verdict| {
        verdict
            .map_err(|error| error.kind())
            .map(|verdict| verdict.remaining)
    });
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [Ok(99), Err(StoreErrorKind::TimedOut), Ok(98)]
    );
    // Nor is a stack.
    let late = [late];
    let (mut sent, mut stack) = (store.acquire(request), store.acquire_all(None, &late));
    poll_once(&mut sent);
    poll_once(&mut stack);
    assert_eq!(sent.await.unwrap().remaining, 97);
    assert_eq!(stack.await.unwrap_err().kind(), StoreErrorKind::TimedOut);
}

#[tokio::test]
async fn cancelled_callers_are_not_sent_and_the_others_are_answered() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::new(100, MINUTE)];
    let ask = || store.acquire(Request::new(b"key", Algorithm::SlidingWindow, &limits));
    assert!(ask().await.unwrap().allowed);
    for dropped in 0..4 {
        let before = server.number(&["ZCARD", "key"]);
        // The first is sent at once; the others wait for its reply.
        let mut answers: Vec<_> = (0..4).map(|_| Some(ask())).collect();
        for answer in answers.iter_mut().flatten() {
            poll_once(answer);
        }
        answers[dropped] = None;
        for answer in answers.into_iter().flatten() {
            assert!(timeout(PATIENCE, answer).await.unwrap().unwrap().allowed);
        }
        // The first was sent, unless the runtime was late and had to read first.
        let asked = if dropped == 0 { 3..=4 } else { 3..=3 };
        assert!(
            asked.contains(&(server.number(&["ZCARD", "key"]) - before)),
            "number {dropped} gave up"
        );
    }
}

#[tokio::test]
async fn callers_with_a_clock_of_their_own_share_a_call_at_the_latest_time_of_them() {
    let server = RedisServer::start();
    let clock = FakeClock::new();
    let store = server.store().with_clock(clock.clone());
    store.ready().await.unwrap();
    let limits = [Limit::new(9, MINUTE)];
    let ask = |key: &'static str| {
        let mut answer = store.acquire(Request::new(
            key.as_bytes(),
            Algorithm::SlidingWindow,
            &limits,
        ));
        poll_once(&mut answer);
        answer
    };
    for key in ["on", "back"] {
        // The first is sent at once; the others wait for its reply.
        let (_sent, before, first) = (ask("other"), clock.now(), ask(key));
        let step = if key == "on" {
            FakeClock::advance
        } else {
            FakeClock::step_back
        };
        step(&clock, Duration::from_secs(1));
        let (last, latest) = (
            ask(key),
            u64::try_from(before.max(clock.now()).as_micros()).unwrap(),
        );
        assert_eq!(
            [first.await, last.await].map(|told| told.unwrap().ticket),
            [latest, latest + 1],
            "{key}"
        );
    }
}

/// A thousand units drain in a microsecond, and none at the moment of the charge.
#[tokio::test]
async fn a_bucket_counts_what_was_charged_in_the_same_microsecond() {
    let server = RedisServer::start();
    let store = on(&server).await;
    let limits = [Limit::per_second(1_000_000_000).with_burst(5)];
    let request = Request::new(b"key", Algorithm::TokenBucket, &limits);
    let stack = [request.with_cost(3), request.with_cost(1).reserving()];
    let told = store.acquire_all(None, &stack).await.unwrap().verdicts;
    assert_eq!([told[0].remaining, told[1].remaining], [2, 1]);
}

type Verdicts = Result<Vec<Verdict>, StoreError>;

/// What so many callers of two rules are told who come at once; the `index`-th asks these keys.
async fn stacks(
    store: &Arc<RedisStore>,
    callers: usize,
    limits: [Limit; 2],
    keys: impl Fn(usize) -> [String; 2],
) -> Vec<Verdicts> {
    let mut running = JoinSet::new();
    for index in 0..callers {
        let (store, keys) = (Arc::clone(store), keys(index));
        running.spawn(async move {
            let algorithms = [Algorithm::LeakyBucket, Algorithm::SlidingWindow];
            let requests = [0, 1].map(|at| {
                Request::new(
                    keys[at].as_bytes(),
                    algorithms[at],
                    std::slice::from_ref(&limits[at]),
                )
            });
            let verdict = store.acquire_all(None, &requests).await;
            (index, verdict.map(|verdict| verdict.verdicts))
        });
    }
    let mut verdicts = running.join_all().await;
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdicts)| verdicts).collect()
}

#[tokio::test]
async fn a_stack_that_cannot_be_decided_fails_alone_and_charges_nothing() {
    let server = RedisServer::start();
    let store = on(&server).await;
    // So long that no bucket drains a unit meanwhile.
    let limits = [Limit::new(100, MINUTE * 60); 2];
    server.cli(&["RPUSH", "list", "x"]);
    for round in 1..=3 {
        for foreign in 0..2 {
            let keys = |index: usize| {
                let mut keys = [format!("a{foreign}{index}"), format!("b{foreign}{index}")];
                if index % 7 == 3 {
                    keys[foreign] = "list".to_owned();
                }
                keys
            };
            for (index, told) in stacks(&store, 200, limits, keys)
                .await
                .into_iter()
                .enumerate()
            {
                match told {
                    Err(error) if index % 7 == 3 => {
                        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
                    }
                    Ok(verdicts) if index % 7 != 3 => {
                        assert!(
                            verdicts
                                .iter()
                                .all(|verdict| verdict.allowed && verdict.remaining == 100 - round)
                        );
                    }
                    other => panic!("{index}: {other:?}"),
                }
            }
        }
    }
    // The other key of a stack that failed has not been charged.
    for (key, algorithm) in [
        ("a13", Algorithm::LeakyBucket),
        ("b03", Algorithm::SlidingWindow),
    ] {
        let request = Request::new(key.as_bytes(), algorithm, &limits[..1]);
        assert_eq!(store.peek(request).await.unwrap().remaining, 100, "{key}");
    }
    assert_eq!(server.number(&["LLEN", "list"]), 1);
}

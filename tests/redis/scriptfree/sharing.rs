//! Processes with scripts and processes without share the log of a sliding window.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, RedisStore, Store};

use super::{plain, scripted, unique};

#[derive(Debug, Clone)]
enum Step {
    Acquire { cost: u64, max: usize, ban: bool },
    Peek { cost: u64, max: usize },
    Refund { which: usize },
    Block { micros: u64 },
    Unblock,
    Reset,
    Advance { micros: u64 },
    Behind { micros: u64 },
}

fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
    let cost = || prop_oneof![6 => Just(1_u64), 3 => 0_u64..5, 1 => 50_u64..150];
    let step = prop_oneof![
        12 => (cost(), 0_usize..3, prop::bool::weighted(0.1))
            .prop_map(|(cost, max, ban)| Step::Acquire { cost, max, ban }),
        4 => (cost(), 0_usize..3).prop_map(|(cost, max)| Step::Peek { cost, max }),
        2 => (0_usize..20).prop_map(|which| Step::Refund { which }),
        1 => (30_000_000_u64..90_000_000).prop_map(|micros| Step::Block { micros }),
        1 => Just(Step::Unblock),
        1 => Just(Step::Reset),
        8 => prop_oneof![Just(1_u64), 1_u64..1_000, 1_u64..30_000_000, 1_u64..90_000_000_000]
            .prop_map(|micros| Step::Advance { micros }),
        // Altogether less than any ban lasts: a ban that ends before the newest entry is counted as
        // one by both.
        1 => (1_u64..10_000).prop_map(|micros| Step::Behind { micros }),
    ];
    prop::collection::vec((any::<bool>(), step), 1..50)
}

fn limits() -> impl Strategy<Value = Vec<(Vec<u64>, u64)>> {
    let max = prop_oneof![6 => 1_u64..12, 1 => 100_u64..300];
    // Keys expire by the server's own clock, which does not stand still: windows, and blocks, are
    // longer than any case takes on a busy machine.
    let window = prop_oneof![50_000_000_u64..90_000_000, Just(60_000_000), Just(86_400_000_000)];
    prop::collection::vec((prop::collection::vec(max, 1..3), window), 1..4)
}

/// A request of this cost, or of as much as the limits ever admit.
fn request<'a>(key: &'a str, limits: &'a [Limit], cost: u64) -> Request<'a> {
    let most = limits.iter().map(Limit::max).min().unwrap();
    Request::new(key.as_bytes(), Algorithm::SlidingWindow, limits).with_cost(cost.min(most))
}

/// One key used by both kinds of store in turn, beside a key used by the scripts alone: all answers
/// are the same.
async fn play(stores: &[RedisStore; 2], clock: &FakeClock, shape: &[(Vec<u64>, u64)], steps: &[(bool, Step)]) {
    let [plain, scripted] = stores;
    let (shared, twin) = (unique("shared"), unique("twin"));
    let (mut tickets, mut stepped_back) = (Vec::new(), false);
    for (at, (scripts, step)) in steps.iter().enumerate() {
        let context = format!("step {at} of {steps:?} under {shape:?}");
        let store = if *scripts { scripted } else { plain };
        let under = |max: usize| -> Vec<Limit> {
            let limit = |(maxima, window): &(Vec<u64>, u64)| {
                Limit::new(maxima[max % maxima.len()], Duration::from_micros(*window))
            };
            shape.iter().map(limit).collect()
        };
        let first = under(0);
        match *step {
            Step::Acquire { cost, max, ban } => {
                let limits = under(max);
                let (mut ours, mut theirs) = (request(&shared, &limits, cost), request(&twin, &limits, cost));
                if ban {
                    let block = Duration::from_secs(45);
                    (ours, theirs) = (ours.with_block(block), theirs.with_block(block));
                }
                let verdict = store.acquire(ours).await.unwrap();
                same(verdict, scripted.acquire(theirs).await.unwrap(), stepped_back, &context);
                if verdict.ticket > 0 {
                    tickets.push((verdict.ticket, ours.cost()));
                }
            }
            Step::Peek { cost, max } => {
                let limits = under(max);
                let (ours, theirs) = (request(&shared, &limits, cost), request(&twin, &limits, cost));
                same(store.peek(ours).await.unwrap(), scripted.peek(theirs).await.unwrap(), stepped_back, &context);
            }
            Step::Refund { which } => {
                let Some(&(ticket, cost)) = tickets.get(which) else { continue };
                let (ours, theirs) = (request(&shared, &first, 1), request(&twin, &first, 1));
                let (ours, theirs) = (ours.with_cost(cost), theirs.with_cost(cost));
                let given = (store.refund(ours, ticket).await.unwrap(), scripted.refund(theirs, ticket).await.unwrap());
                assert_eq!(given.0, given.1, "{context}");
            }
            Step::Block { micros } => {
                let ((ours, theirs), ban) =
                    ((request(&shared, &first, 1), request(&twin, &first, 1)), Duration::from_micros(micros));
                store.block(ours, ban).await.unwrap();
                scripted.block(theirs, ban).await.unwrap();
            }
            Step::Unblock => {
                let (ours, theirs) = (request(&shared, &first, 1), request(&twin, &first, 1));
                let ended = (store.unblock(ours).await.unwrap(), scripted.unblock(theirs).await.unwrap());
                assert_eq!(ended.0, ended.1, "{context}");
            }
            Step::Reset => {
                let (ours, theirs) = (request(&shared, &first, 1), request(&twin, &first, 1));
                let reset = (store.reset(ours).await.unwrap(), scripted.reset(theirs).await.unwrap());
                assert_eq!(reset.0, reset.1, "{context}");
            }
            Step::Advance { micros } => clock.advance(Duration::from_micros(micros)),
            Step::Behind { micros } => {
                clock.step_back(Duration::from_micros(micros));
                stepped_back = true;
            }
        }
    }
}

/// Where the clock has stepped back, waits are cut to what is left of the key's life, which the
/// server's clock measures: it runs on between the two questions.
fn same(ours: Verdict, theirs: Verdict, stepped_back: bool, context: &str) {
    let context = format!("shared {ours:?} and scripts alone {theirs:?} differ at {context}");
    let exact =
        |verdict: Verdict| (verdict.allowed, verdict.limit_index, verdict.remaining, verdict.ticket, verdict.blocked);
    assert_eq!(exact(ours), exact(theirs), "{context}");
    let tolerance = if stepped_back { 3_000_000 } else { 0 };
    assert!(ours.retry_after_us.abs_diff(theirs.retry_after_us) <= tolerance, "{context}");
    assert!(ours.reset_after_us.abs_diff(theirs.reset_after_us) <= tolerance, "{context}");
}

fn compare(url_suffix: &str) {
    let clock = FakeClock::new();
    let url = |url: String| format!("{url}{url_suffix}");
    let plain = RedisStore::new(&url(super::url(&super::SERVER)))
        .unwrap()
        .mode(RedisMode::Transactions)
        .with_clock(clock.clone());
    let scripted = RedisStore::new(&url(super::SERVER.url())).unwrap();
    let scripted = scripted.mode(RedisMode::Scripts).with_clock(clock.clone());
    // What one of them changes, the other is to see at once.
    let stores = [plain, scripted].map(|store| store.deny_cache(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = std::env::var("RATELIMIT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(limits(), steps()), |(limits, steps)| {
        runtime.block_on(play(&stores, &clock, &limits, &steps));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn both_kinds_of_store_agree_on_one_key() {
    compare("");
}

#[test]
fn both_kinds_of_store_agree_on_one_key_over_resp2() {
    compare("?protocol=resp2");
}

/// Where the clock is the server's, too.
#[tokio::test]
async fn what_one_kind_of_store_does_the_other_sees() {
    let (plain, scripted, key) = (plain(), scripted(), unique("both"));
    let limits = [Limit::per_minute(4)];
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    let mine = plain.acquire(request).await.unwrap();
    let theirs = scripted.acquire(request).await.unwrap();
    assert_eq!((mine.remaining, theirs.remaining), (3, 2));
    assert!(theirs.ticket > mine.ticket);
    assert!(scripted.refund(request, mine.ticket).await.unwrap());
    assert!(plain.refund(request, theirs.ticket).await.unwrap());
    assert_eq!(plain.peek(request).await.unwrap().remaining, 4);
    scripted.block(request, Duration::from_secs(60)).await.unwrap();
    assert!(plain.acquire(request).await.unwrap().blocked);
    assert!(plain.unblock(request).await.unwrap());
    plain.block(request, Duration::from_secs(60)).await.unwrap();
    assert!(scripted.acquire(request).await.unwrap().blocked);
    assert!(scripted.unblock(request).await.unwrap());
    for left in [3, 2, 1, 0] {
        let store = if left % 2 == 0 { &plain } else { &scripted };
        assert_eq!(store.acquire(request).await.unwrap().remaining, left);
    }
    for store in [&plain, &scripted] {
        let refused = store.acquire(request).await.unwrap();
        assert!(!refused.allowed && refused.retry_after_us > 59_000_000, "{refused:?}");
    }
}

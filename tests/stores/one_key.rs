//! The log of a sliding window has one key, whatever it is kept as: stores that expect other
//! layouts ask for one bucket in turn, sorted sets become rings in the middle of it all, and the
//! answers stay those of the memory store. `RATELIMIT_TEST_CASES` chooses how many random runs
//! there are.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::store::{Request, StoreError, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, LogLayout, MemoryStore, RedisStore, Store};

const MINUTE: u64 = 60_000_000;

fn per(max: u64, micros: u64) -> Limit {
    Limit::new(max, Duration::from_micros(micros))
}

/// Stores on one server, as processes of one deployment are: one that keeps to sorted sets, one
/// that begins rings, and one that takes it as it comes.
struct Stores {
    all: [RedisStore; 3],
    clock: FakeClock,
}

const ZSET: usize = 0;
const RING: usize = 1;
const DEFAULT: usize = 2;

impl Stores {
    fn on(server: &RedisServer) -> Self {
        let clock = FakeClock::new();
        let store = || RedisStore::new(&server.url()).unwrap().deny_cache(false).with_clock(clock.clone());
        let all = [store().log_layout(LogLayout::Zset), store().log_layout(LogLayout::Ring), store()];
        Self { all, clock }
    }
}

fn log<'a>(key: &'a str, limits: &'a [Limit]) -> Request<'a> {
    Request::new(key.as_bytes(), Algorithm::SlidingWindow, limits)
}

fn kind(key: &str) -> String {
    shared().cli(&["TYPE", key])
}

fn seen(verdict: Verdict) -> (bool, u64, bool, usize, u64, u64) {
    let Verdict { allowed, remaining, blocked, .. } = verdict;
    (allowed, remaining, blocked, verdict.limit_index, verdict.retry_after_us, verdict.reset_after_us)
}

#[derive(Debug, Clone)]
enum Step {
    Calls { store: usize, count: usize, cost: u64, apart: u64, max: usize, reserve: bool, block: bool },
    Peek { store: usize, cost: u64, max: usize },
    Refund { store: usize, from: usize, count: usize },
    Settle { store: usize, which: usize, commit: bool },
    Together { store: usize, cost: u64, reserve: bool },
    Block { store: usize, micros: u64 },
    Unblock { store: usize },
    Reset { store: usize },
    Advance { micros: u64 },
    Rewind { micros: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let store = || 0_usize..3;
    let cost = || prop_oneof![8 => Just(1_u64), 2 => 0_u64..5, 1 => 50_u64..300];
    let step = prop_oneof![
        8 => (store(), prop_oneof![4 => 1_usize..4, 1 => 100_usize..140], cost(), 0_u64..2_000, 0_usize..3,
            prop::bool::weighted(0.15), prop::bool::weighted(0.1))
            .prop_map(|(store, count, cost, apart, max, reserve, block)| {
                let cost = if count > 10 { 1 } else { cost };
                Step::Calls { store, count, cost, apart, max, reserve: reserve && count < 10, block }
            }),
        3 => (store(), cost(), 0_usize..3).prop_map(|(store, cost, max)| Step::Peek { store, cost, max }),
        4 => (store(), 0_usize..300, 1_usize..20).prop_map(|(store, from, count)| Step::Refund { store, from, count }),
        2 => (store(), 0_usize..10, any::<bool>())
            .prop_map(|(store, which, commit)| Step::Settle { store, which, commit }),
        2 => (store(), cost(), prop::bool::weighted(0.2))
            .prop_map(|(store, cost, reserve)| Step::Together { store, cost, reserve }),
        1 => (store(), 1_000_000_u64..3_000_000).prop_map(|(store, micros)| Step::Block { store, micros }),
        1 => store().prop_map(|store| Step::Unblock { store }),
        1 => store().prop_map(|store| Step::Reset { store }),
        5 => prop_oneof![Just(1_u64), 1_u64..1_000, 1_u64..30_000_000, 1_u64..90_000_000]
            .prop_map(|micros| Step::Advance { micros }),
        1 => (1_u64..10_000).prop_map(|micros| Step::Rewind { micros }),
    ];
    prop::collection::vec(step, 1..50)
}

/// The maxima each limit may be asked with, and its window.
type Shape = Vec<(Vec<u64>, u64)>;

fn shapes() -> impl Strategy<Value = Shape> {
    let max =
        prop_oneof![3 => 1_u64..12, 4 => prop::sample::select(vec![100_u64, 126, 127, 128, 129]), 2 => 200_u64..600];
    let window = prop_oneof![Just(MINUTE), 20_000_000_u64..90_000_000, Just(86_400_000_000)];
    prop::collection::vec((prop::collection::vec(max, 1..4), window), 1..3)
}

/// One key in memory and on Redis.
struct Run<'a> {
    stores: &'a Stores,
    memory: MemoryStore,
    key: String,
    beside: String,
    stepped_back: bool,
    context: String,
    /// Tickets in memory and on Redis, cost, whether it is reserved.
    admitted: Vec<(u64, u64, u64, bool)>,
}

impl Run<'_> {
    /// Redis (left) and memory (right). Where the clock has stepped back, waits are cut to what is
    /// left of the key's life, which the server's own clock measures.
    fn same(&self, redis: Verdict, memory: Verdict) {
        let (redis, memory) = (seen(redis), seen(memory));
        if self.stepped_back {
            assert_eq!((redis.0, redis.1, redis.2), (memory.0, memory.1, memory.2), "{}", self.context);
        } else {
            assert_eq!(redis, memory, "{}", self.context);
        }
    }

    /// What a sorted set cannot hold is refused, and said, only where it has to stay one.
    fn refuses(&self, store: usize, error: &StoreError) {
        assert!(
            matches!(error.kind(), StoreErrorKind::Misconfigured | StoreErrorKind::Unsupported),
            "{error} at {}",
            self.context
        );
        let members = || shared().number(&["ZCARD", &self.key]);
        assert!(store == ZSET || kind(&self.key) == "zset" && members() > 256, "{error} at {}", self.context);
    }

    async fn call(&mut self, store: usize, limits: &[Limit], cost: u64, reserve: bool, block: bool) -> bool {
        let key = self.key.clone();
        let mut request = log(&key, limits).with_cost(cost);
        if reserve {
            request = request.reserving();
        }
        if block {
            request = request.with_block(Duration::from_millis(1500));
        }
        match self.stores.all[store].acquire(request).await {
            Ok(theirs) => {
                let ours = self.memory.acquire(request).await.unwrap();
                self.same(theirs, ours);
                if theirs.ticket > 0 {
                    self.admitted.push((ours.ticket, theirs.ticket, cost, reserve));
                }
                theirs.allowed
            }
            Err(error) => {
                self.refuses(store, &error);
                false
            }
        }
    }

    async fn step(&mut self, step: &Step, shape: &Shape) {
        let under = |max: usize| -> Vec<Limit> {
            shape.iter().map(|(maxima, window)| per(maxima[max % maxima.len()], *window)).collect()
        };
        let most = |limits: &[Limit]| limits.iter().map(Limit::max).min().unwrap();
        let first = under(0);
        let key = self.key.clone();
        match *step {
            Step::Calls { store, count, cost, apart, max, reserve, block } => {
                let limits = under(max);
                for _ in 0..count {
                    if !self.call(store, &limits, cost.min(most(&limits)), reserve, block).await {
                        break;
                    }
                    self.stores.clock.advance(Duration::from_micros(apart));
                }
            }
            Step::Peek { store, cost, max } => {
                let limits = under(max);
                let request = log(&key, &limits).with_cost(cost.min(most(&limits)));
                let theirs = self.stores.all[store].peek(request).await.unwrap();
                self.same(theirs, self.memory.peek(request).await.unwrap());
            }
            Step::Refund { store, from, count } if !self.admitted.is_empty() => {
                let chosen: Vec<_> =
                    self.admitted.iter().skip(from % self.admitted.len()).take(count).copied().collect();
                for (ours, theirs, cost, reserved) in chosen {
                    if !reserved {
                        let request = log(&key, &first).with_cost(cost);
                        let ours = self.memory.refund(request, ours).await.unwrap();
                        let theirs = self.stores.all[store].refund(request, theirs).await.unwrap();
                        assert_eq!(theirs, ours, "{}", self.context);
                    }
                }
            }
            Step::Settle { store, which, commit } => {
                let mut reserved = self.admitted.iter().enumerate().filter(|(_, one)| one.3);
                let Some((at, &(ours, theirs, cost, _))) = reserved.nth(which) else { return };
                let request = log(&key, &first).with_cost(cost).reserving();
                let store = &self.stores.all[if store == ZSET { DEFAULT } else { store }];
                let (theirs, ours) = if commit {
                    self.admitted[at].3 = false;
                    (store.commit(request, theirs).await.unwrap(), self.memory.commit(request, ours).await.unwrap())
                } else {
                    self.admitted.remove(at);
                    (store.release(request, theirs).await.unwrap(), self.memory.release(request, ours).await.unwrap())
                };
                assert_eq!(theirs, ours, "{}", self.context);
            }
            Step::Together { store, cost, reserve } => {
                let beside = self.beside.clone();
                let plenty = [per(100_000, MINUTE)];
                let cost = cost.min(most(&first));
                let mut both = [log(&beside, &plenty), log(&key, &first).with_cost(cost)];
                if reserve {
                    both = both.map(Request::reserving);
                }
                match self.stores.all[store].acquire_all(&both).await {
                    Ok(theirs) => {
                        let ours = self.memory.acquire_all(&both).await.unwrap();
                        self.same(theirs[1], ours[1]);
                        assert_eq!(theirs[0].remaining, ours[0].remaining, "{}", self.context);
                        if theirs[1].ticket > 0 {
                            self.admitted.push((ours[1].ticket, theirs[1].ticket, cost, reserve));
                        }
                    }
                    Err(error) => self.refuses(store, &error),
                }
            }
            Step::Block { store, micros } => {
                let micros = Duration::from_micros(micros);
                self.stores.all[store].block(log(&key, &first), micros).await.unwrap();
                self.memory.block(log(&key, &first), micros).await.unwrap();
            }
            Step::Unblock { store } => {
                let theirs = self.stores.all[store].unblock(log(&key, &first)).await.unwrap();
                assert_eq!(theirs, self.memory.unblock(log(&key, &first)).await.unwrap(), "{}", self.context);
            }
            Step::Reset { store } => {
                self.stores.all[store].reset(log(&key, &first)).await.unwrap();
                self.memory.reset(log(&key, &first)).await.unwrap();
                self.admitted.clear();
            }
            Step::Refund { .. } => {}
            Step::Advance { micros } => self.stores.clock.advance(Duration::from_micros(micros)),
            Step::Rewind { micros } => {
                self.stores.clock.step_back(Duration::from_micros(micros));
                self.stepped_back = true;
            }
        }
    }
}

#[test]
fn layouts_meet_on_one_key_and_nobody_can_tell() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = std::env::var("RATELIMIT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let stores = Stores::on(shared());
    let result = runner.run(&(shapes(), steps()), |(shape, steps)| {
        let memory = MemoryStore::new().with_clock(stores.clock.clone());
        let mut run = Run {
            stores: &stores,
            memory,
            key: unique("one-key"),
            beside: unique("beside"),
            stepped_back: false,
            context: String::new(),
            admitted: Vec::new(),
        };
        for (at, step) in steps.iter().enumerate() {
            run.context = format!("step {at} of {steps:?} under {shape:?}");
            runtime.block_on(run.step(step, &shape));
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

// What the random runs may miss.

#[tokio::test]
async fn raising_a_full_limit_admits_exactly_the_difference() {
    let stores = Stores::on(shared());
    for store in [ZSET, RING, DEFAULT] {
        for (before, after) in
            [(100, 126), (100, 127), (126, 127), (126, 128), (126, 129), (127, 129), (126, 500), (128, 10_000)]
        {
            let (key, store) = (unique("raised"), &stores.all[store]);
            let (low, high) = ([per(before, MINUTE)], [per(after, MINUTE)]);
            for left in (0..before).rev() {
                assert_eq!(store.acquire(log(&key, &low)).await.unwrap().remaining, left);
            }
            assert!(!store.acquire(log(&key, &low)).await.unwrap().allowed);
            for left in (0..after - before).rev().take(1_000) {
                let verdict = store.acquire(log(&key, &high)).await.unwrap();
                assert!(verdict.allowed && verdict.remaining == left, "{before} to {after}: {verdict:?}");
            }
            assert_eq!(store.acquire(log(&key, &high)).await.unwrap().allowed, after - before > 1_000);
            assert!(!store.acquire(log(&key, &low)).await.unwrap().allowed, "and back");
        }
    }
}

#[tokio::test]
async fn a_refund_of_a_set_that_is_a_ring_by_now_gives_back_its_cost() {
    let stores = Stores::on(shared());
    for cost in [1, 3, 40] {
        let (key, limits) = (unique("converted"), [per(126, MINUTE)]);
        let heavy = log(&key, &limits).with_cost(cost);
        let mut tickets = Vec::new();
        for _ in 0..3 {
            tickets.push(stores.all[ZSET].acquire(heavy).await.unwrap().ticket);
        }
        assert_eq!(kind(&key), "zset");
        // Another limit and a reservation, so that another store makes it a ring.
        let reserved = stores.all[DEFAULT].acquire(log(&key, &limits).reserving()).await.unwrap();
        assert_eq!(kind(&key), "string");
        assert_eq!(reserved.remaining, 126 - 3 * cost - 1);
        let left = || async { stores.all[DEFAULT].peek(log(&key, &limits)).await.unwrap().remaining };
        for (back, at) in [1, 0, 2].into_iter().enumerate() {
            assert!(stores.all[back].refund(heavy, tickets[at]).await.unwrap());
            assert!(!stores.all[back].refund(heavy, tickets[at]).await.unwrap(), "once");
            assert_eq!(left().await, 125 - cost * (2 - u64::try_from(back).unwrap()));
        }
    }
}

#[tokio::test]
async fn a_refused_reservation_of_nothing_blocks_as_any_other() {
    let stores = Stores::on(shared());
    let memory = MemoryStore::new().with_clock(stores.clock.clone());
    let key = unique("nothing");
    let all: [&dyn Store; 3] = [&memory, &stores.all[DEFAULT], &stores.all[RING]];
    for (at, store) in all.into_iter().enumerate() {
        let key = format!("{key}-{at}");
        for _ in 0..2 {
            assert!(store.acquire(log(&key, &[per(2, MINUTE)])).await.unwrap().allowed);
        }
        let lowered = [per(1, MINUTE)];
        let nothing = log(&key, &lowered).with_cost(0).with_block(Duration::from_secs(90)).reserving();
        let refused = store.acquire(nothing).await.unwrap();
        assert_eq!((refused.allowed, refused.blocked, refused.retry_after_us), (false, true, 90_000_000), "{at}");
    }
}

#[tokio::test]
async fn a_set_of_more_than_256_members_stays_one() {
    let stores = Stores::on(shared());
    let (key, limits) = (unique("stays"), [per(2_000, MINUTE)]);
    for _ in 0..257 {
        assert!(stores.all[ZSET].acquire(log(&key, &limits)).await.unwrap().allowed);
    }
    let store = &stores.all[DEFAULT];
    assert_eq!(store.acquire(log(&key, &limits)).await.unwrap().remaining, 2_000 - 258);
    let heavy = store.acquire(log(&key, &limits).with_cost(1_000)).await.unwrap();
    assert_eq!((heavy.remaining, kind(&key).as_str()), (2_000 - 1_258, "zset"));
    assert!(store.refund(log(&key, &limits).with_cost(1_000), heavy.ticket).await.unwrap());
    for request in [log(&key, &limits).reserving(), log(&key, &limits).with_cost(1_001)] {
        let error = store.acquire(request).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        assert!(error.message().contains("more than 256 members"), "{error}");
        assert!(!error.message().contains(&key), "{error}");
    }
    assert_eq!(store.peek(log(&key, &limits)).await.unwrap().remaining, 2_000 - 258);

    // One of 256 does not.
    let key = unique("goes");
    for _ in 0..256 {
        assert!(stores.all[ZSET].acquire(log(&key, &limits)).await.unwrap().allowed);
    }
    assert_eq!(store.acquire(log(&key, &limits)).await.unwrap().remaining, 2_000 - 257);
    assert_eq!(kind(&key), "string");
}

#[tokio::test]
async fn without_memory_for_a_ring_the_set_stays_as_it_is() {
    let server = RedisServer::start();
    let stores = Stores::on(&server);
    let (key, few, many) = ("short", [per(100, MINUTE)], [per(1_000, MINUTE)]);
    let store = &stores.all[DEFAULT];
    for _ in 0..100 {
        assert!(store.acquire(log(key, &few)).await.unwrap().allowed);
    }
    let members = || server.cli(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
    let (before, left) = (members(), server.number(&["PTTL", key]));
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let heavy = log(key, &few).with_cost(2);
    for request in [log(key, &many), log(key, &many).with_cost(7), log(key, &many).reserving()] {
        let error = store.acquire(request).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
        assert!(error.message().contains("maxmemory"), "{error}");
        let error = store.acquire_all(&[log("beside", &few), request]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    }
    // What needs no memory is answered.
    assert!(!store.acquire(heavy).await.unwrap().allowed);
    assert_eq!(store.peek(log(key, &many)).await.unwrap().remaining, 900);
    assert_eq!(members(), before);
    assert!((1..=left).contains(&server.number(&["PTTL", key])));
    assert_eq!(server.number(&["EXISTS", "beside"]), 0);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.acquire(log(key, &many)).await.unwrap().remaining, 899);
    assert_eq!(server.cli(&["TYPE", key]), "string");
}

#[tokio::test]
async fn a_ring_met_without_scripts_is_a_clear_error() {
    let stores = Stores::on(shared());
    let (key, limits) = (unique("ring"), [per(500, MINUTE)]);
    let ticket = stores.all[DEFAULT].acquire(log(&key, &limits)).await.unwrap().ticket;
    let plain = RedisStore::new(&shared().url()).unwrap().deny_cache(false).scripts(false);
    let second = Duration::from_secs(1);
    for error in [
        plain.acquire(log(&key, &limits)).await.unwrap_err(),
        plain.peek(log(&key, &limits)).await.unwrap_err(),
        plain.refund(log(&key, &limits), ticket).await.unwrap_err(),
        plain.block(log(&key, &limits), second).await.unwrap_err(),
        plain.unblock(log(&key, &limits)).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
        let message = error.message();
        assert!(message.contains("LogLayout::Zset") && message.contains("scripts"), "{message}");
        assert!(!message.contains(&key), "{message}");
    }
    assert_eq!(stores.all[DEFAULT].peek(log(&key, &limits)).await.unwrap().remaining, 499);
    // What resets it does not have to read it.
    assert!(plain.reset(log(&key, &limits)).await.unwrap());
    assert!(plain.acquire(log(&key, &limits)).await.unwrap().allowed);

    // Somebody else's string is not called a ring.
    let foreign = unique("foreign");
    shared().cli(&["LPUSH", &foreign, "hello"]);
    for store in [&plain, &stores.all[DEFAULT]] {
        let error = store.acquire(log(&foreign, &limits)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        assert!(error.message().contains("prefix"), "{error}");
    }
}

//! Whatever is asked, in whatever order: the cache says what the store would say.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::RedisStore;
use ratelimit_runtime::testkit::FakeClock;

use super::*;
use crate::support::redis::shared;
use crate::support::unique;

const KEYS: [&str; 3] = ["a", "b", "c"];
/// For how long a refusal that open reservations cause is answered again, in microseconds: they may
/// be released.
const RESERVED_WAIT: u64 = 50_000;

#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire {
        key: usize,
        cost: u64,
        shape: usize,
        reserve: bool,
        block: u64,
    },
    Group {
        shape: usize,
    },
    /// Of what was admitted through the cache, by its place.
    GiveBack {
        which: usize,
        commit: bool,
    },
    Block {
        key: usize,
        micros: u64,
    },
    Unblock {
        key: usize,
    },
    Reset {
        key: usize,
    },
    /// By another process.
    Elsewhere {
        key: usize,
        what: u8,
        shape: usize,
    },
    Advance {
        micros: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..KEYS.len();
    let micros = prop_oneof![Just(1_u64), 1..1_000_u64, 1..400_000_u64, 1..3_000_000_u64];
    let step = prop_oneof![
        30 => (key(), 0..5_u64, 0..6_usize, prop::bool::weighted(0.02), prop_oneof![9 => Just(0), 1 => 1_000..4_000_000_u64])
            .prop_map(|(key, cost, shape, reserve, block)| Step::Acquire { key, cost, shape, reserve, block }),
        1 => (0..6_usize).prop_map(|shape| Step::Group { shape }),
        2 => (0..30_usize, any::<bool>()).prop_map(|(which, commit)| Step::GiveBack { which, commit }),
        1 => (key(), 1..3_000_000_u64).prop_map(|(key, micros)| Step::Block { key, micros }),
        1 => key().prop_map(|key| Step::Unblock { key }),
        1 => key().prop_map(|key| Step::Reset { key }),
        2 => (key(), 0..3_u8, 0..6_usize).prop_map(|(key, what, shape)| Step::Elsewhere { key, what, shape }),
        12 => micros.prop_map(|micros| Step::Advance { micros }),
    ];
    prop::collection::vec(step, 1..200)
}

/// Limits with the same windows, as a rule may be asked with.
fn limits(shape: usize) -> Vec<Limit> {
    let max = [1, 2, 4, 5, 7, 11];
    let first = Limit::new(max.get(shape).copied().unwrap(), SECOND * 2);
    vec![first, Limit::new(9, SECOND * 5).with_burst(6)]
}

struct World {
    clock: FakeClock,
    memory: Arc<MemoryStore>,
    cache: DenyCache<Arc<MemoryStore>>,
    /// When another process last had to do with a key.
    touched: [Option<Duration>; KEYS.len()],
    /// Whether something was ever reserved.
    reserved: bool,
    answered_again: u64,
}

impl World {
    fn new() -> Self {
        let clock = FakeClock::new();
        let memory = Arc::new(MemoryStore::new().with_clock(clock.clone()));
        let cache = DenyCache::new(Arc::clone(&memory)).with_clock(clock.clone());
        Self { clock, memory, cache, touched: [None; KEYS.len()], reserved: false, answered_again: 0 }
    }

    fn acquire(&mut self, key: usize, request: Request<'_>) -> Verdict {
        let would_say = self.memory.peek(request).known().unwrap().unwrap();
        let said = self.cache.acquire(request).known().unwrap().unwrap();
        if !said.cached {
            assert_eq!(said.allowed, would_say.allowed);
            return said;
        }
        self.answered_again += 1;
        assert!(!said.allowed && said.ticket == 0);
        let since_touched = self.touched.get(key).copied().flatten().map(|at| self.clock.now().saturating_sub(at));
        if since_touched.is_none_or(|since| since >= SECOND) {
            let context = format!("{said:?} for {would_say:?} on {request:?}");
            assert!(!would_say.allowed, "{context}");
            assert_eq!(said.blocked, would_say.blocked, "{context}");
            // Reservations do not drain, and lapse. With them, another limit may decide by now.
            if self.reserved {
                return said;
            }
            assert!(said.remaining <= would_say.remaining, "{context}");
            assert!(said.retry_after_us <= would_say.retry_after_us, "{context}");
            // Beside a block the deciding limit may be another by now.
            if !said.blocked {
                assert_eq!(said.retry_after_us, would_say.retry_after_us, "{context}");
                assert_eq!(said.reset_after_us, would_say.reset_after_us, "{context}");
            }
        }
        said
    }

    fn elsewhere(&mut self, key: usize, what: u8, request: Request<'_>) {
        let memory = &self.memory;
        match what {
            0 => drop(memory.reset(request).known().unwrap()),
            1 => drop(memory.unblock(request).known().unwrap()),
            _ => drop(memory.acquire(request).known().unwrap()),
        }
        *self.touched.get_mut(key).unwrap() = Some(self.clock.now());
    }
}

fn play(algorithm: Algorithm, steps: &[Step]) -> u64 {
    let mut world = World::new();
    let mut admitted = Vec::new();
    let name = |key: usize| KEYS.get(key).unwrap().as_bytes();
    for step in steps {
        match *step {
            Step::Acquire { key, cost, shape, reserve, block } => {
                let limits = limits(shape);
                let cost = cost.min(limits.iter().map(Limit::max).min().unwrap());
                let mut request = Request::new(name(key), algorithm, &limits).with_cost(cost);
                if reserve {
                    world.reserved = true;
                    request = request.reserving();
                }
                let verdict = world.acquire(key, request.with_block(Duration::from_micros(block)));
                if verdict.ticket != 0 {
                    admitted.push((key, cost, reserve, verdict.ticket));
                }
            }
            Step::Group { shape } => {
                let limits = limits(shape);
                let group = KEYS.map(|key| Request::new(key.as_bytes(), algorithm, &limits));
                drop(world.cache.acquire_all(&group).known().unwrap());
            }
            Step::GiveBack { which, commit } => {
                let Some(&(key, cost, reserved, ticket)) = admitted.get(which) else { continue };
                let limits = limits(0);
                let request = Request::new(name(key), algorithm, &limits).with_cost(cost);
                let answer = match (reserved, commit) {
                    (true, commit) => {
                        let actual = if commit { cost } else { 0 };
                        world.cache.settle(request.reserving(), ticket, actual).known().unwrap().map(drop)
                    }
                    (false, _) => world.cache.refund(request, ticket).known().unwrap().map(drop),
                };
                answer.unwrap();
            }
            Step::Block { key, micros } => {
                let limits = limits(0);
                let request = Request::new(name(key), algorithm, &limits);
                world.cache.block(request, Duration::from_micros(micros)).known().unwrap().unwrap();
            }
            Step::Unblock { key } => {
                let limits = limits(0);
                world.cache.unblock(Request::new(name(key), algorithm, &limits)).known().unwrap().unwrap();
            }
            Step::Reset { key } => {
                let limits = limits(0);
                world.cache.reset(Request::new(name(key), algorithm, &limits)).known().unwrap().unwrap();
            }
            Step::Elsewhere { key, what, shape } => {
                let limits = limits(shape);
                world.elsewhere(key, what, Request::new(name(key), algorithm, &limits));
            }
            Step::Advance { micros } => world.clock.advance(Duration::from_micros(micros)),
        }
    }
    world.answered_again
}

fn assert_exact(algorithm: Algorithm) {
    let cases = std::env::var("RATELIMIT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let answered_again = std::cell::Cell::new(0);
    let result = runner.run(&steps(), |steps| {
        answered_again.set(answered_again.get() + play(algorithm, &steps));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(answered_again.get() > u64::from(cases), "it was hardly tried: {}", answered_again.get());
}

/// Each algorithm in memory, and on Redis.
fn caches(clock: &FakeClock) -> Vec<(&'static str, Box<dyn Store>)> {
    let memory = MemoryStore::new().with_clock(clock.clone());
    let redis = RedisStore::new(&shared().url()).unwrap().with_clock(clock.clone());
    vec![("memory", Box::new(DenyCache::new(memory).with_clock(clock.clone()))), ("Redis", Box::new(redis))]
}

#[tokio::test]
async fn a_cached_refusal_says_that_a_block_refuses_for_as_long_as_one_does() {
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let clock = FakeClock::new();
        for (place, store) in caches(&clock) {
            let (key, limits) = (unique("block"), [Limit::per_hour(2)]);
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            for _ in 0..2 {
                assert!(store.acquire(request).await.unwrap().allowed);
            }
            // By a rule and by hand: shorter than the limit goes on refusing.
            let block = MILLISECOND * 100;
            for by_rule in [true, false] {
                let asks = if by_rule { request.with_block(block) } else { request };
                if by_rule {
                    assert!(store.acquire(asks).await.unwrap().blocked);
                } else {
                    store.block(request, block).await.unwrap();
                }
                let mut cached = 0;
                for _ in 0..9 {
                    let refused = store.acquire(asks).await.unwrap();
                    assert!(!refused.allowed && refused.blocked, "{algorithm} on {place}: {refused:?}");
                    cached += u64::from(refused.cached);
                    clock.advance(MILLISECOND * 10);
                }
                assert!(cached >= 8, "{algorithm} on {place}: {cached}");
                clock.advance(MILLISECOND * 10);
                let refused = store.acquire(request).await.unwrap();
                assert!(!refused.allowed && !refused.blocked, "{algorithm} on {place}: {refused:?}");
                let again = store.acquire(request).await.unwrap();
                assert!(again.cached && !again.blocked, "{algorithm} on {place}: {again:?}");
            }
        }
    }
}

/// They may be settled or lapse before its wait is over.
#[tokio::test]
async fn a_refusal_by_open_reservations_alone_is_not_cached() {
    for &algorithm in ratelimit_conformance::ALGORITHMS {
        let clock = FakeClock::new();
        for (place, store) in caches(&clock) {
            let (key, limits) = (unique("reserved"), [Limit::per_hour(2)]);
            let request = Request::new(key.as_bytes(), algorithm, &limits);
            for _ in 0..2 {
                assert!(store.acquire(request.reserving()).await.unwrap().allowed);
            }
            for _ in 0..10 {
                let refused = store.acquire(request).await.unwrap();
                assert_eq!(refused.retry_after_us, RESERVED_WAIT, "{algorithm} on {place}");
                assert!(!refused.cached, "{algorithm} on {place}");
                clock.advance(MILLISECOND * 20);
            }
        }
    }
}

macro_rules! every {
    ($($(#[$attribute:meta])* $variant:ident $module:ident $state:tt $row:tt)*) => {
        /// Refusals are answered as the store would, under this algorithm.
        mod answered_as_the_store_would {
            use super::*;

            $(#[test]
            fn $module() {
                assert_exact(Algorithm::$variant);
            })*
        }
    };
}

ratelimit_runtime::__algorithms!(every);

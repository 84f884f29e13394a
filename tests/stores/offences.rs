//! Who sets a block: a limit that refuses a call which all other parts would have let run.

use std::time::Duration;

use futures_util::future::join_all;
use ratelimit_runtime::__private::{BuiltInStore as _, PermitId, PermitRequest};
use ratelimit_runtime::store::{Request, StoreErrorKind, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisStore, Store};

use crate::support::layer::forward;
use crate::support::random::{Random, seed};
use crate::support::redis::{Link, shared};
use crate::support::unique;
use crate::units::ALGORITHMS;

const LIMITS: [Limit; 1] = [Limit::per_hour(1)];
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// A store on a clock of its own, and the keys of a test.
struct Place {
    store: Box<dyn Store>,
    clock: FakeClock,
    algorithm: Algorithm,
    keys: [String; 3],
}

impl Place {
    fn request(&self, key: usize) -> Request<'_> {
        Request::new(self.keys[key].as_bytes(), self.algorithm, &LIMITS)
    }

    /// A request that blocks for a minute, then for two, up to an hour.
    fn growing(&self, key: usize) -> Request<'_> {
        self.request(key).with_growing_block(MINUTE, HOUR)
    }

    async fn acquire(&self, request: Request<'_>) -> Verdict {
        self.store.acquire(request).await.unwrap()
    }

    async fn peek(&self, key: usize) -> Verdict {
        self.store.peek(self.request(key)).await.unwrap()
    }

    async fn offend(&self, request: Request<'_>) -> Verdict {
        self.store.offend(request).await.unwrap()
    }

    async fn stack(&self, requests: &[Request<'_>]) -> Vec<bool> {
        let verdict = self.store.acquire_all(None, requests).await.unwrap();
        let verdicts = verdict.verdicts;
        verdicts.iter().map(|verdict| verdict.allowed).collect()
    }
}

/// Memory and Redis under each algorithm.
async fn places() -> Vec<Place> {
    let place = async |&algorithm: &Algorithm, on_redis: bool| {
        let clock = FakeClock::new();
        let store: Box<dyn Store> = if on_redis {
            let redis = shared().store();
            let redis = redis.with_clock(clock.clone()).deny_cache(false);
            redis.ready().await.unwrap();
            Box::new(redis)
        } else {
            Box::new(MemoryStore::new().with_clock(clock.clone()))
        };
        let keys = [0, 1, 2].map(|_| unique("offence"));
        Place {
            store,
            clock,
            algorithm,
            keys,
        }
    };
    let pairs = ALGORITHMS
        .iter()
        .flat_map(|algorithm| [(algorithm, false), (algorithm, true)]);
    join_all(pairs.map(|(algorithm, on_redis)| place(algorithm, on_redis))).await
}

/// Of the calls of somebody whose own limit is used up, no other key is blocked.
#[tokio::test]
async fn a_stack_blocks_only_where_all_other_parts_admit() {
    for place in places().await {
        let algorithm = place.algorithm;
        for key in [0, 1] {
            assert!(place.acquire(place.request(key)).await.allowed);
        }
        for _ in 0..3 {
            let both = [place.growing(0), place.growing(1), place.growing(2)];
            assert_eq!(place.stack(&both).await, [false, false, true]);
        }
        for key in [0, 1, 2] {
            assert!(!place.peek(key).await.blocked, "{algorithm}: {key}");
        }
        assert!(place.peek(2).await.allowed, "{algorithm}");
        // Alone in refusing, in any place of the stack, it is an offence.
        for stack in [[0, 2], [2, 1]] {
            let stack = stack.map(|key| place.growing(key));
            assert!(place.stack(&stack).await.contains(&true));
        }
        for key in [0, 1] {
            assert!(place.peek(key).await.blocked, "{algorithm}: {key}");
        }
        assert!(place.peek(2).await.allowed, "{algorithm}");
    }
}

/// A key that is blocked already refuses as any other part.
#[tokio::test]
async fn a_stack_with_a_blocked_part_blocks_nobody_else() {
    for place in places().await {
        assert!(place.acquire(place.request(1)).await.allowed);
        place.store.block(place.request(0), MINUTE).await.unwrap();
        let stack = [place.growing(0), place.growing(1)];
        assert_eq!(place.stack(&stack).await, [false, false]);
        assert!(!place.peek(1).await.blocked, "{}", place.algorithm);
    }
}

/// Of two charges of one key there is room for one.
#[tokio::test]
async fn a_key_twice_in_a_stack_is_blocked_where_there_is_room_for_one() {
    const TWO: [Limit; 1] = [Limit::per_hour(2)];
    for place in places().await {
        let twice = Request::new(place.keys[0].as_bytes(), place.algorithm, &TWO);
        let twice = twice.with_growing_block(MINUTE, HOUR);
        assert!(place.acquire(twice).await.allowed);
        let stack = [twice, place.growing(1), twice];
        assert!(place.stack(&stack).await.contains(&false));
        assert!(place.peek(0).await.blocked, "{}", place.algorithm);
        assert!(place.peek(1).await.allowed, "{}", place.algorithm);
        assert!(place.store.unblock(twice).await.unwrap());
        assert_eq!(place.store.peek(twice).await.unwrap().remaining, 1);
    }
}

/// One key refuses, by both of its requests.
#[tokio::test]
async fn a_key_twice_in_a_stack_is_blocked_where_there_is_room_for_none() {
    const TWO: [Limit; 1] = [Limit::per_hour(2)];
    for place in places().await {
        let twice = Request::new(place.keys[0].as_bytes(), place.algorithm, &TWO);
        let twice = twice.with_growing_block(MINUTE, HOUR);
        assert_eq!(place.stack(&[twice, twice]).await, [true, true]);
        assert!(place.acquire(place.growing(1)).await.allowed);
        // Two keys refuse.
        let stack = [twice, place.growing(1), twice];
        assert_eq!(place.stack(&stack).await, [false; 3]);
        assert!(!place.peek(0).await.blocked, "{}", place.algorithm);
        assert!(place.store.reset(place.request(1)).await.unwrap());
        assert_eq!(place.stack(&stack).await, [false, true, false]);
        assert!(place.peek(0).await.blocked, "{}", place.algorithm);
        assert!(place.peek(1).await.allowed, "{}", place.algorithm);
    }
}

#[tokio::test]
async fn a_call_that_concurrent_refuses_is_no_offence() {
    for place in places().await {
        let algorithm = place.algorithm;
        let own = &place.store;
        let in_flight = PermitRequest::new(unique("offence:cc").as_bytes(), 1);
        let verdict = own
            .acquire_all(Some(in_flight.clone()), &[place.growing(0)])
            .await;
        assert!(verdict.unwrap().is_acquired());
        let another = || PermitRequest {
            id: PermitId::next(),
            ..in_flight.clone()
        };
        let full = own
            .acquire_all(Some(another()), &[place.growing(0)])
            .await
            .unwrap();
        assert!(full.is_full && !full.verdicts[0].allowed, "{algorithm}");
        assert!(!place.peek(0).await.blocked, "{algorithm}");
        own.release_permit(&in_flight);
        own.settled().await.unwrap();
        let refused = own
            .acquire_all(Some(another()), &[place.growing(0)])
            .await
            .unwrap();
        assert!(!refused.is_full && refused.verdicts[0].blocked);
        assert!(place.peek(0).await.blocked, "{algorithm}");
    }
}

#[tokio::test]
async fn an_offence_blocks_and_never_charges() {
    for place in places().await {
        let algorithm = place.algorithm;
        // Where the limits admit, nothing happens.
        for _ in 0..3 {
            let looked = place.offend(place.growing(0)).await;
            assert!(looked.allowed && looked.ticket == 0, "{algorithm}");
        }
        assert!(place.acquire(place.growing(0)).await.allowed);
        // Without a block it is a look.
        assert!(!place.offend(place.request(0)).await.allowed);
        assert!(!place.peek(0).await.blocked);
        let offence = place.offend(place.growing(0)).await;
        assert!(offence.blocked && !offence.allowed, "{algorithm}");
        place.clock.advance(MINUTE / 2);
        // A block is neither lengthened nor counted twice.
        for _ in 0..3 {
            assert!(place.offend(place.growing(0)).await.blocked, "{algorithm}");
        }
        place.clock.advance(MINUTE / 2);
        assert!(!place.peek(0).await.blocked, "{algorithm}: a minute");
        assert!(place.offend(place.growing(0)).await.blocked);
        place.clock.advance(MINUTE);
        assert!(place.peek(0).await.blocked, "{algorithm}: two minutes");
        place.clock.advance(MINUTE);
        assert!(!place.peek(0).await.blocked, "{algorithm}: two minutes");
    }
}

/// They may be released: most are.
#[tokio::test]
async fn open_reservations_alone_are_no_offence() {
    for place in places().await {
        assert!(place.acquire(place.growing(0).reserving()).await.allowed);
        let refusal = place.offend(place.growing(0)).await;
        assert_eq!((refusal.allowed, refusal.blocked), (false, false));
        assert_eq!(refusal.retry_after(), Some(Duration::from_millis(50)));
        assert!(!place.peek(0).await.blocked, "{}", place.algorithm);
    }
}

/// A key on both stores. On Redis it expires by the clock of the test.
struct Pair {
    memory: MemoryStore,
    redis: RedisStore,
    link: Link,
    clock: FakeClock,
    key: String,
    passed: Duration,
    /// When the key expires on Redis.
    ends: Duration,
}

impl Pair {
    async fn new() -> Self {
        let clock = FakeClock::new();
        let redis = shared().store();
        let redis = redis.with_clock(clock.clone()).deny_cache(false);
        redis.ready().await.unwrap();
        Self {
            memory: MemoryStore::new().with_clock(clock.clone()),
            redis,
            link: shared().connect(),
            clock,
            key: unique("remembered"),
            passed: Duration::ZERO,
            ends: Duration::ZERO,
        }
    }

    /// Takes the time to live of a key that was written: the test says when that is over.
    fn written(&mut self) {
        let left = self.link.send(&["PTTL", &self.key]).unwrap();
        if let Some(left) = left.parse().ok().map(Duration::from_millis) {
            self.ends = self.passed + left;
            self.link.send(&["PERSIST", &self.key]).unwrap();
        }
    }

    fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
        self.passed += time;
        if self.passed >= self.ends {
            self.link.send(&["DEL", &self.key]).unwrap();
        }
    }
}

/// The first block of a rule and its longest: none, one that does not grow, or a range.
fn random_range(random: &mut Random) -> (Duration, Duration) {
    const RANGES: [(u64, u64); 5] = [(0, 0), (700, 0), (400, 1_600), (400, 12_800), (300, 90_000)];
    let (first, longest) = random.of(&RANGES);
    (Duration::from_millis(first), Duration::from_millis(longest))
}

/// As a policy changes it, also to a block that does not grow, and to none.
#[tokio::test]
async fn offences_are_remembered_alike_where_the_range_of_a_rule_changes() {
    let seed = seed();
    for algorithm in ALGORITHMS {
        let mut random = Random::new(seed);
        let mut pair = Pair::new().await;
        let (mut until, mut blocks) = (Duration::ZERO, 0);
        let key = pair.key.clone();
        let limits = [Limit::new(1, Duration::from_millis(500))];
        for step in 0..600 {
            let (first, longest) = random_range(&mut random);
            let request = Request::new(key.as_bytes(), *algorithm, &limits);
            let request = if longest.is_zero() {
                request.with_block(first)
            } else {
                request.with_growing_block(first, longest)
            };
            match random.below(20) {
                0..11 => {
                    let ours = pair.memory.acquire(request).await.unwrap();
                    let theirs = pair.redis.acquire(request).await.unwrap();
                    let said = |verdict: &Verdict| {
                        let block = verdict.blocked.then_some(verdict.retry_after_us);
                        (verdict.allowed, block)
                    };
                    let context = format!("{algorithm}, seed {seed}, step {step}");
                    assert_eq!(said(&ours), said(&theirs), "{context}");
                    if ours.blocked {
                        until = pair.passed + ours.retry_after().unwrap();
                        blocks += 1;
                    }
                }
                11 => {
                    pair.memory.block(request, MINUTE / 60).await.unwrap();
                    pair.redis.block(request, MINUTE / 60).await.unwrap();
                    until = pair.passed + MINUTE / 60;
                }
                12 => {
                    let ours = pair.memory.unblock(request).await.unwrap();
                    assert_eq!(ours, pair.redis.unblock(request).await.unwrap());
                }
                _ => {
                    let to_the_end = until.saturating_sub(pair.passed);
                    let (_, longest) = random_range(&mut random);
                    let time = match random.below(4) {
                        0 => to_the_end,
                        1 => to_the_end + longest,
                        2 => to_the_end + longest.saturating_sub(Duration::from_micros(1)),
                        _ => Duration::from_millis(random.below(2_000)),
                    };
                    pair.advance(time);
                    continue;
                }
            }
            pair.written();
        }
        assert!(blocks > 50, "{algorithm}: {blocks}");
    }
}

/// A store of another crate has no such operation.
#[tokio::test]
async fn a_store_of_another_crate_cannot_be_asked_for_an_offence() {
    struct Other(MemoryStore);

    impl Store for Other {
        forward!(0: acquire, peek, reset);
    }

    let other = Other(MemoryStore::new());
    let request = Request::new(b"key", Algorithm::SlidingWindow, &LIMITS);
    let other: Box<dyn Store> = Box::new(other);
    let error = other.offend(request).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}

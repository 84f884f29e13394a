//! Plays the same random steps on two stores, and compares every field of every answer, to the
//! microsecond, under every algorithm, on a clock that steps back now and then. One store is
//! memory, which the conformance suite compares with the model; the other is Redis in each of its
//! modes, or a deny cache.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod excluded;
mod play;

use std::cell::Cell;
use std::time::Duration;

use self::excluded::{Circumstances, assert_same};
use self::play::play;
use crate::support::deny_cache::DenyCache;
use crate::support::redis::shared;
use crate::support::unique;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_runtime::__private::{BuiltInStore as _, Sealed};
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::testkit::FakeClock;
use ratelimit_runtime::{Algorithm, Limit, MemoryStore, RedisMode, Store};
use tokio::runtime::Runtime;

#[derive(Debug, Clone)]
enum Step {
    Acquire {
        cost: u64,
        max: usize,
        reserves: Reserves,
        block: bool,
    },
    Peek {
        cost: u64,
        max: usize,
    },
    Offend {
        cost: u64,
        max: usize,
    },
    Refund {
        which: usize,
    },
    Settle {
        which: usize,
        actual: Option<u64>,
    },
    SettleAgain {
        which: usize,
    },
    Block {
        micros: u64,
    },
    Unblock,
    Reset,
    Advance {
        micros: u64,
    },
    Rewind {
        micros: u64,
    },
    /// To the moment when the key ends on Redis.
    Expire,
}

/// The kind of reservation of an admission.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reserves {
    Nothing,
    Cost,
    Estimate,
}

impl Reserves {
    fn of(self, request: Request<'_>) -> Request<'_> {
        match self {
            Self::Nothing => request,
            Self::Cost => request.reserving(),
            Self::Estimate => request.reserving_estimate(),
        }
    }
}

/// A rule: the maxima it may be asked with, and its windows.
#[derive(Debug, Clone)]
struct Shape {
    limits: Vec<(Vec<u64>, u64, Option<u64>)>,
    largest_cost: u64,
    /// The calendar units that replace the windows of some limits.
    periods: Vec<Option<&'static str>>,
    /// No call asks with a lower `max` than one before.
    only_rises: bool,
}

impl Shape {
    fn limits(&self, max: usize) -> Vec<Limit> {
        let limit = |(at, (maxima, window, burst)): (usize, &(Vec<u64>, u64, Option<u64>))| {
            let max = maxima[max.min(maxima.len() - 1)];
            if let Some(Some(period)) = self.periods.get(at) {
                return format!("{max}/{period}").parse().unwrap();
            }
            let limit = Limit::new(max, Duration::from_micros(*window));
            burst.map_or(limit, |burst| limit.with_burst(burst))
        };
        self.limits.iter().enumerate().map(limit).collect()
    }
}

fn shapes(algorithm: Algorithm) -> impl Strategy<Value = Shape> {
    let buckets = algorithm.has_burst();
    let max = prop_oneof![4 => 1_u64..12, 1 => 100_u64..1000, 1 => Just((1 << 52) - 1), 1 => 1_000_000_u64..1_000_000_007];
    let window = prop_oneof![
        1_000_u64..2_000_000,
        Just(60_000_000),
        Just(86_400_000_000),
        Just(7_777_777)
    ];
    let burst = if buckets {
        prop_oneof![Just(None), (1_u64..40).prop_map(Some)].boxed()
    } else {
        Just(None).boxed()
    };
    let limits = prop::collection::vec((prop::collection::vec(max, 1..3), window, burst), 1..4);
    // A call weighs at most 1,000 in a log.
    (
        limits,
        if algorithm == Algorithm::SlidingWindow {
            1_u64..1_001
        } else {
            1_u64..2_000
        },
    )
        .prop_map(move |(mut limits, largest_cost)| {
            for (maxima, ..) in limits.iter_mut().filter(|_| buckets) {
                maxima.sort_unstable();
                // A larger one would count in coarser ticks, which take longer to drain.
                if maxima.last() > Some(&1_000) {
                    maxima.drain(..maxima.len() - 1);
                }
            }
            Shape {
                limits,
                largest_cost,
                periods: Vec::new(),
                only_rises: buckets,
            }
        })
}

/// Fixed windows of which at least one is a period of the calendar, in zones that set their clocks
/// at other times than most.
fn shapes_by_calendar() -> impl Strategy<Value = Shape> {
    let period = prop::sample::select(vec![
        "hour",
        "day",
        "month",
        "year",
        "day@Europe/Berlin",
        "week@America/Sao_Paulo",
        "hour@Australia/Lord_Howe",
        "day@Asia/Beirut",
        "hour@Asia/Kolkata",
    ]);
    let periods = (
        period.clone().prop_map(Some),
        prop::collection::vec(prop::option::of(period), 0..3),
    );
    (shapes(Algorithm::FixedWindow), periods).prop_map(|(shape, (first, mut periods))| {
        periods.insert(0, first);
        Shape { periods, ..shape }
    })
}

/// Limits of every size, beside those from which on the scripts no longer count microseconds, or no
/// longer multiply at once.
fn large_shapes(algorithm: Algorithm) -> impl Strategy<Value = Shape> {
    const DAY: u64 = 86_400_000_000;
    let window = prop_oneof![
        4 => prop::sample::select(vec![1_000_000, 60_000_000, 3_600_000_000, DAY, 30 * DAY, 366 * DAY]),
        1 => 1_000_u64..366 * DAY,
    ];
    let written = prop::sample::select(vec![100_000, 1_000_000, 10_000_000, 1_000_000_000]);
    let limit = (
        window,
        prop_oneof![1 => written.prop_map(Some), 2 => Just(None)],
    );
    let burst = prop::option::of(1_u64..20);
    // A maximum of so many bits, or of as many as make these with the window.
    let bits = (1_u32..53, 50_u32..57, any::<bool>(), 0_u64..5);
    let limit = (limit, burst, bits).prop_map(move |((window, written), burst, bits)| {
        let (own, product, is_product, off) = bits;
        let power = if is_product {
            (1 << product) / window
        } else {
            1 << own
        };
        let max = written
            .unwrap_or((power + off).saturating_sub(2))
            .clamp(1, Limit::MAX_COUNT);
        let burst = burst.filter(|_| algorithm.has_burst());
        let burst = burst.map(|burst| (max / burst).max(1) * (burst % 5 + 1));
        (vec![max], window, burst)
    });
    prop::collection::vec(limit, 1..3).prop_map(|limits| Shape {
        limits,
        largest_cost: Limit::MAX_COUNT,
        periods: Vec::new(),
        only_rises: true,
    })
}

/// Costs and pauses, in microseconds.
type Sizes = (BoxedStrategy<u64>, BoxedStrategy<u64>);

fn small() -> Sizes {
    let cost = prop_oneof![5 => Just(1_u64), 3 => 0_u64..6, 1 => 1_u64..2000];
    let pause = prop_oneof![
        Just(1_u64),
        1_u64..1_000,
        1_u64..3_000_000,
        1_u64..90_000_000_000
    ];
    (cost.boxed(), pause.boxed())
}

/// Of any length.
fn large() -> Sizes {
    let of_bits = |most: u32| (1..most, 0_u64..3).prop_map(|(bits, off)| (1_u64 << bits) - off);
    let cost = prop_oneof![2 => Just(1), 4 => of_bits(53), 1 => Just(Limit::MAX_COUNT)];
    let pause =
        prop_oneof![4 => of_bits(42), 1 => 1_u64..100_000_000_000, 1 => 1_u64..1_000_000_000_000];
    (cost.boxed(), pause.boxed())
}

fn steps((cost, pause): Sizes) -> impl Strategy<Value = Vec<Step>> {
    let reserves = prop_oneof![8 => Just(Reserves::Nothing), 2 => Just(Reserves::Cost), 2 => Just(Reserves::Estimate)];
    let step = prop_oneof![
        12 => (cost.clone(), 0_usize..3, reserves, prop::bool::weighted(0.1))
            .prop_map(|(cost, max, reserves, block)| Step::Acquire { cost, max, reserves, block }),
        3 => (cost.clone(), 0_usize..3).prop_map(|(cost, max)| Step::Peek { cost, max }),
        1 => (cost, 0_usize..3).prop_map(|(cost, max)| Step::Offend { cost, max }),
        2 => (0_usize..20).prop_map(|which| Step::Refund { which }),
        4 => (0_usize..20, prop_oneof![4 => Just(None), 4 => (0_u64..9).prop_map(Some), 2 => (0_u64..3_000).prop_map(Some),
            1 => Just(Some(Limit::MAX_COUNT))])
            .prop_map(|(which, actual)| Step::Settle { which, actual }),
        1 => (0_usize..20).prop_map(|which| Step::SettleAgain { which }),
        1 => (1_u64..3_000_000).prop_map(|micros| Step::Block { micros }),
        1 => Just(Step::Unblock),
        1 => Just(Step::Reset),
        8 => pause.prop_map(|micros| Step::Advance { micros }),
        2 => Just(Step::Expire),
        1 => prop_oneof![1_u64..1_000, 1_u64..3_000_000].prop_map(|micros| Step::Rewind { micros }),
    ];
    prop::collection::vec(step, 1..60)
}

fn capacity(algorithm: Algorithm, limits: &[Limit]) -> u64 {
    let capacity = |limit: &Limit| {
        if algorithm.has_burst() {
            limit.capacity()
        } else {
            limit.max()
        }
    };
    limits.iter().map(capacity).min().unwrap()
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    algorithm: Algorithm,
    column: Column,
}

/// The store that memory is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Scripts,
    /// Around another memory.
    DenyCache,
    Transactions,
}

impl Kind {
    fn request<'a>(self, key: &'a [u8], limits: &'a [Limit]) -> Request<'a> {
        Request::new(key, self.algorithm, limits)
    }

    /// A fixed window without scripts goes by the server's clock.
    fn of(algorithm: Algorithm) -> Vec<Self> {
        let transactions = (algorithm == Algorithm::SlidingWindow).then_some(Column::Transactions);
        [Column::Scripts, Column::DenyCache]
            .into_iter()
            .chain(transactions)
            .map(|column| Self { algorithm, column })
            .collect()
    }

    fn store(self, clock: &FakeClock) -> (Runtime, Box<dyn Store>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mode = match self.column {
            Column::DenyCache => {
                let memory = MemoryStore::new().with_clock(clock.clone());
                return (
                    runtime,
                    Box::new(DenyCache::new(memory).with_clock(clock.clone())),
                );
            }
            Column::Scripts => RedisMode::Scripts,
            Column::Transactions => RedisMode::Transactions,
        };
        let redis = shared().store().with_clock(clock.clone());
        let redis = redis.mode(mode).deny_cache(false);
        runtime.block_on(redis.ready()).unwrap();
        (runtime, Box::new(redis))
    }
}

fn compare(algorithm: Algorithm) {
    for kind in Kind::of(algorithm) {
        compare_shapes(kind, &FakeClock::new(), shapes(algorithm), small());
    }
}

fn compare_shapes(
    kind: Kind,
    clock: &FakeClock,
    shapes: impl Strategy<Value = Shape>,
    sizes: Sizes,
) {
    let (runtime, store) = kind.store(clock);
    let cases = std::env::var("RATELIMIT_TEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60);
    // Without a server in between it takes next to no time.
    let cases = if kind.column == Column::DenyCache {
        cases * 10
    } else {
        cases
    };
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let cached = Cell::new(0);
    let result = runner.run(&(shapes, steps(sizes)), |(shape, steps)| {
        cached.set(cached.get() + play(&runtime, &*store, clock, kind, &shape, &steps));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let is_tried = kind.column != Column::DenyCache || cached.get() > u64::from(cases / 4);
    assert!(
        is_tried,
        "{kind:?}: in {cases} runs {} refusals were cached",
        cached.get()
    );
}

/// From the days on in which the clocks of most zones are set.
#[test]
fn redis_decides_calendar_periods_as_memory_does() {
    for kind in Kind::of(Algorithm::FixedWindow) {
        let clock = FakeClock::new();
        // 2023-11-14 to 2024-03-29.
        clock.advance(Duration::from_secs(136 * 86_400));
        compare_shapes(kind, &clock, shapes_by_calendar(), small());
    }
}

#[test]
fn redis_decides_sliding_windows_as_memory_does() {
    compare(Algorithm::SlidingWindow);
}

#[test]
fn redis_decides_counters_as_memory_does() {
    compare(Algorithm::FixedWindow);
    compare(Algorithm::SlidingCounter);
}

#[test]
fn redis_decides_buckets_as_memory_does() {
    compare(Algorithm::TokenBucket);
    compare(Algorithm::LeakyBucket);
}

#[test]
fn redis_decides_large_limits_as_memory_does() {
    let algorithms = Algorithm::ALL
        .iter()
        .filter(|algorithm| **algorithm != Algorithm::SlidingWindow);
    for &algorithm in algorithms {
        let kind = Kind {
            algorithm,
            column: Column::Scripts,
        };
        compare_shapes(kind, &FakeClock::new(), large_shapes(algorithm), large());
    }
}

/// What counts of the last window of a sliding counter, and when less of it counts, where either is
/// a whole number but for a little: a product that is no longer exact comes to another one.
#[test]
fn redis_rounds_sliding_counters_as_memory_does() {
    const DAY: u64 = 86_400_000_000;
    // The factor that makes a product of `number` leave `rest`, where they have no divisor in
    // common.
    let factor = |number: u64, modulus: u64, rest: u64| {
        let (mut left, mut right) = ((modulus, 0_i128), (number % modulus, 1_i128));
        while right.0 > 0 {
            let times = left.0 / right.0;
            let next = (left.0 % right.0, left.1 - i128::from(times) * right.1);
            (left, right) = (right, next);
        }
        let inverse = left.1.rem_euclid(i128::from(modulus));
        let factor = inverse * i128::from(rest) % i128::from(modulus);
        (left.0 == 1).then(|| u64::try_from(factor).unwrap())
    };
    let (kind, clock) = (
        Kind {
            algorithm: Algorithm::SlidingCounter,
            column: Column::Scripts,
        },
        FakeClock::new(),
    );
    let (runtime, store) = kind.store(&clock);
    let windows = prop::sample::select(vec![DAY, 7 * DAY, 30 * DAY, 366 * DAY, 30 * DAY - 1]);
    let cases = (windows, 1_000_000_u64..1 << 30, 0_u64..7);
    let result = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::default()
    })
    .run(&cases, |(window, max, off)| {
        let beside = |modulus| (modulus + off - 3) % modulus;
        let overlap = factor(max, window, beside(window)).filter(|overlap| *overlap > 0);
        let room = factor(window, max, beside(max)).filter(|room| *room < max - 1);
        let (Some(overlap), Some(room)) = (overlap, room) else {
            return Ok(());
        };
        let shape = Shape {
            limits: vec![(vec![max], window, None)],
            largest_cost: max,
            periods: Vec::new(),
            only_rises: false,
        };
        let acquire = |cost| Step::Acquire {
            cost,
            max: 0,
            reserves: Reserves::Nothing,
            block: false,
        };
        let advance = |micros| Step::Advance { micros };
        let steps = [
            acquire(max),
            advance(2 * window - overlap),
            acquire(1),
            acquire(max - 1 - room),
        ];
        play(&runtime, &*store, &clock, kind, &shape, &steps);
        clock.step_back(Duration::from_micros(2 * window - overlap));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// In the fewest steps: under these algorithms and limits (maxima, window, burst).
#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn redis_decides_as_memory_does_what_once_differed() {
    const DAY: u64 = 86_400_000_000;
    const MINUTE: u64 = 60_000_000;
    let call = |max, cost, reserves| Step::Acquire {
        cost,
        max,
        reserves,
        block: false,
    };
    let acquire = |max, cost| call(max, cost, Reserves::Nothing);
    let reserve = |max, cost| call(max, cost, Reserves::Cost);
    let offence = || Step::Acquire {
        cost: 1,
        max: 0,
        reserves: Reserves::Nothing,
        block: true,
    };
    let refund = |which| Step::Refund { which };
    let release = |which| Step::Settle {
        which,
        actual: Some(0),
    };
    let advance = |micros| Step::Advance { micros };
    let limit = |maxima: &[u64], window, burst| (maxima.to_vec(), window, burst);
    let day = |max| vec![limit(&[max], DAY, None)];
    let (all, buckets) = (
        ratelimit_conformance::ALGORITHMS,
        &[Algorithm::TokenBucket, Algorithm::LeakyBucket][..],
    );
    let late = Step::Settle {
        which: 0,
        actual: Some(2),
    };
    let mut table = vec![
        // A debt for which one limit has room and another has none.
        (
            buckets,
            vec![
                limit(&[(1 << 52) - 1, 585], 1_000, Some(3)),
                limit(&[1], 1_000, Some(5)),
            ],
            vec![
                call(0, 1, Reserves::Estimate),
                advance(5_000),
                acquire(1, 1),
                late,
                acquire(0, 3),
            ],
        ),
        // The key ends with the window behind that of its last charge.
        (
            all,
            day(2),
            vec![
                acquire(0, 1),
                advance(DAY),
                acquire(0, 1),
                Step::Expire,
                acquire(0, 2),
            ],
        ),
        // A block by a rate of which less would still count.
        (
            buckets,
            vec![limit(&[10, 1], DAY, None)],
            vec![
                acquire(1, 1),
                Step::Block { micros: 1_000 },
                Step::Expire,
                acquire(1, 1),
            ],
        ),
        // A window of which all is given back beside an open reservation.
        (
            all,
            day(2),
            vec![
                reserve(0, 1),
                advance(1),
                acquire(0, 1),
                refund(1),
                acquire(0, 0),
            ],
        ),
        // A second refund of a call after the first has left nothing, or a block, or a reservation.
        (
            all,
            day(1),
            vec![
                acquire(0, 1),
                advance(1),
                refund(0),
                acquire(0, 1),
                refund(0),
            ],
        ),
        (
            all,
            vec![limit(&[1], 1_000, None), limit(&[2], DAY, None)],
            vec![
                acquire(0, 1),
                advance(1),
                refund(0),
                acquire(0, 1),
                refund(0),
            ],
        ),
        (
            all,
            day(1),
            vec![
                acquire(0, 1),
                advance(1),
                offence(),
                refund(0),
                Step::Unblock,
                acquire(0, 1),
                refund(0),
            ],
        ),
        (
            all,
            day(1),
            vec![
                acquire(0, 1),
                offence(),
                advance(1_500_000),
                refund(0),
                acquire(0, 1),
                refund(0),
            ],
        ),
        (
            all,
            day(2),
            vec![
                acquire(0, 1),
                reserve(0, 1),
                advance(1),
                refund(0),
                release(1),
                acquire(0, 1),
                refund(0),
            ],
        ),
        // What others have charged drains, and nothing is left.
        (
            all,
            vec![limit(&[6], MINUTE, None)],
            [
                [
                    acquire(0, 1),
                    advance(18_000_000),
                    acquire(0, 3),
                    refund(0),
                    refund(1),
                    advance(1_000_000),
                ],
                [
                    acquire(0, 1),
                    advance(4_000_000),
                    acquire(0, 3),
                    refund(1),
                    advance(20_000_000),
                    acquire(0, 3),
                ],
            ]
            .concat(),
        ),
        // Refunds leave nothing in the first of two buckets, and time nothing in the second.
        (
            buckets,
            vec![limit(&[6], MINUTE, None), limit(&[6], MINUTE / 10, None)],
            [
                vec![
                    acquire(0, 2),
                    advance(1_900_000),
                    acquire(0, 3),
                    refund(0),
                    refund(0),
                    refund(0),
                ],
                vec![advance(2_900_000), acquire(0, 1), refund(0)],
            ]
            .concat(),
        ),
        // A window in which nothing is used any more.
        (
            all,
            day(2),
            vec![
                reserve(0, 1),
                acquire(0, 1),
                advance(DAY),
                refund(1),
                Step::Peek { cost: 1, max: 0 },
            ],
        ),
        (
            all,
            day(2),
            vec![reserve(0, 1), advance(1), release(0), acquire(0, 1)],
        ),
        (
            all,
            day(2),
            vec![
                reserve(0, 1),
                advance(DAY / 4),
                reserve(0, 1),
                advance(DAY * 3 / 4),
                release(0),
                acquire(0, 2),
            ],
        ),
    ];
    // The last window counts for 1,201 of 1,203, which times the window is no double.
    let (window, overlap) = (7_499_749_587_631, 7_493_509_795_000);
    table.push((
        &[Algorithm::SlidingCounter],
        vec![limit(&[1_203], window, None)],
        vec![
            acquire(0, 1_202),
            advance(2 * window - overlap),
            acquire(0, 1),
        ],
    ));
    // What drains at another rate after a reservation or a refund.
    for between in [reserve(1, 1), refund(0), release(1)] {
        let before = [
            acquire(0, 2),
            reserve(0, 1),
            acquire(0, 2),
            advance(7_777_777),
            between,
            advance(1_111_111),
        ];
        let steps = [&before[..], &[acquire(1, 2), acquire(2, 1), acquire(2, 3)]].concat();
        table.push((buckets, vec![limit(&[3, 7, 100], MINUTE, Some(9))], steps));
    }
    for (algorithms, limits, steps) in table {
        let shape = Shape {
            limits,
            largest_cost: 2_000,
            periods: Vec::new(),
            only_rises: false,
        };
        for kind in algorithms.iter().flat_map(|algorithm| Kind::of(*algorithm)) {
            let clock = FakeClock::new();
            let (runtime, store) = kind.store(&clock);
            play(&runtime, &*store, &clock, kind, &shape, &steps);
        }
    }
}

/// Concurrent questions to Redis: callers who share a call, and stacks.
mod at_once {
    use futures_util::future::join_all;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn runner() -> TestRunner {
        let cases = std::env::var("RATELIMIT_TEST_CASES")
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(60);
        TestRunner::new(Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        })
    }

    fn steps<S: Strategy>(step: S) -> impl Strategy<Value = Vec<(S::Value, u64)>> {
        let pause = prop::sample::select(vec![0, 1, 1_000_000, 20_000_000, 59_000_000, 61_000_000]);
        prop::collection::vec((step, pause), 1..25)
    }

    #[test]
    fn callers_in_one_batch_are_decided_as_one_after_the_other() {
        // And how much a unit of cost is.
        let rules = [
            (vec![Limit::new(10, MINUTE)], 1),
            (vec![Limit::new(7, MINUTE), Limit::new(12, MINUTE * 10)], 1),
            (vec![Limit::new(1_000_000_000, MINUTE * 10)], 100_000_000),
        ];
        for &algorithm in Algorithm::ALL {
            let (kind, clock) = (
                Kind {
                    algorithm,
                    column: Column::Scripts,
                },
                FakeClock::new(),
            );
            let (runtime, redis) = kind.store(&clock);
            let reserves =
                prop::sample::select(vec![Reserves::Nothing, Reserves::Cost, Reserves::Estimate]);
            let step = (1_usize..6, 1_u64..4, reserves, any::<bool>());
            let result = runner().run(
                &(prop::sample::select(rules.to_vec()), steps(step)),
                |((limits, unit), steps)| {
                    // A log takes no call of such a cost.
                    if unit > 1 && algorithm == Algorithm::SlidingWindow {
                        return Ok(());
                    }
                    let (memory, key) = (
                        MemoryStore::new().with_clock(clock.clone()),
                        unique("together"),
                    );
                    for ((callers, cost, reserves, block), pause) in steps {
                        clock.advance(Duration::from_micros(pause));
                        let request = kind.request(key.as_bytes(), &limits);
                        let request = reserves.of(request.with_cost(cost * unit));
                        let request = if block {
                            request.with_block(MINUTE / 3)
                        } else {
                            request
                        };
                        let theirs = runtime
                            .block_on(join_all((0..callers).map(|_| redis.acquire(request))));
                        for theirs in theirs {
                            let (ours, theirs) = (
                                runtime.block_on(memory.acquire(request)).unwrap(),
                                theirs.unwrap(),
                            );
                            let how = Circumstances {
                                is_of_several_callers: true,
                                has_several_limits: limits.len() > 1,
                                ..Circumstances::default()
                            };
                            assert_same(&ours, &theirs, how, &format!("{request:?}"));
                            assert_eq!(ours.ticket, theirs.ticket, "{request:?}");
                        }
                    }
                    Ok(())
                },
            );
            result.unwrap_or_else(|error| panic!("{algorithm}: {error}"));
        }
    }

    #[test]
    fn redis_decides_stacks_as_memory_does() {
        let ten = MINUTE * 10;
        let rules = [
            (Algorithm::SlidingWindow, vec![Limit::new(3, MINUTE)]),
            (
                Algorithm::SlidingWindow,
                vec![Limit::new(9, ten), Limit::new(4, MINUTE)],
            ),
            (Algorithm::TokenBucket, vec![Limit::new(3, MINUTE)]),
            (
                Algorithm::LeakyBucket,
                vec![Limit::new(5, MINUTE).with_burst(2), Limit::new(20, ten)],
            ),
            (
                Algorithm::FixedWindow,
                vec![Limit::new(4, MINUTE), Limit::new(9, ten)],
            ),
            (
                Algorithm::SlidingCounter,
                vec![Limit::new(9, ten), Limit::new(2, MINUTE)],
            ),
            (Algorithm::TokenBucket, vec![Limit::per_day(1_000_000)]),
        ];
        let (kind, clock) = (
            Kind {
                algorithm: Algorithm::SlidingWindow,
                column: Column::Scripts,
            },
            FakeClock::new(),
        );
        let (runtime, redis) = kind.store(&clock);
        let reserves =
            prop::sample::select(vec![Reserves::Nothing, Reserves::Cost, Reserves::Estimate]);
        let member = (0..rules.len(), 1_u64..3, reserves, any::<bool>());
        // A rule that stands twice is charged twice, or not at all. Which of the two is charged
        // first, and given back, is open: it takes tickets of a log.
        let stacks = (any::<bool>(), steps(prop::collection::vec(member, 1..5)));
        let result = runner().run(&stacks, |(twice, steps)| {
            let (memory, run) = (
                MemoryStore::new().with_clock(clock.clone()),
                unique("stack"),
            );
            let keys: Vec<String> = (0..rules.len())
                .map(|rule| format!("{run}{rule}"))
                .collect();
            for (mut stack, pause) in steps {
                clock.advance(Duration::from_micros(pause));
                let len = stack.len();
                for (rule, ..) in stack.iter_mut().filter(|_| twice) {
                    *rule = (*rule).max(2);
                }
                stack.sort_by_key(|(rule, ..)| *rule);
                stack.dedup_by_key(|(rule, ..)| *rule);
                let members = if twice {
                    stack.iter().chain(&stack).take(len).collect()
                } else {
                    Vec::from_iter(&stack)
                };
                let request = |&&(rule, cost, reserves, block): &&(usize, u64, Reserves, bool)| {
                    let (algorithm, limits) = &rules[rule];
                    let request =
                        Request::new(keys[rule].as_bytes(), *algorithm, limits).with_cost(cost);
                    if twice {
                        return request;
                    }
                    reserves.of(if block {
                        request.with_block(MINUTE / 8)
                    } else {
                        request
                    })
                };
                let requests: Vec<Request<'_>> = members.iter().map(request).collect();
                let ours = runtime.block_on(memory.acquire_all(None, &requests));
                let ours = ours.unwrap().verdicts;
                let theirs = redis.built_in(Sealed).unwrap();
                let theirs = runtime.block_on(theirs.acquire_all(None, &requests));
                let theirs = theirs.unwrap().verdicts;
                let context = format!("{requests:?}: {ours:?} {theirs:?}");
                let admitted = |told: &[Verdict]| told.iter().all(|verdict| verdict.allowed);
                assert_eq!(admitted(&ours), admitted(&theirs), "{context}");
                for (ours, theirs) in ours.iter().zip(&theirs).filter(|_| !twice) {
                    assert_same(ours, theirs, Circumstances::default(), &context);
                    assert_eq!(ours.ticket, theirs.ticket, "{context}");
                }
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    }
}

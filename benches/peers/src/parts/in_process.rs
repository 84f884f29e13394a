//! The limiters that answer in the process, one call after the other; and what a guard adds to a
//! future.
//!
//! Every side is given a number and makes its key of it.

use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Barrier, LazyLock, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota};
use ratelimit_runtime::{Limit, MemoryStore, RateLimitError, RateLimiter, Rule, key, rate_limit};

use crate::histogram::median;
use crate::table::{Table, number, ratio};

type Outcome = Result<(), RateLimitError>;

/// The keys of a table, asked in turn: fewer than a memory store holds, more than a cache.
const NUMBERS: u64 = 50_000;

/// A number of 15 digits makes a key of 20 bytes.
const FIRST: u64 = 100_000_000_000_000;

// With 50,000 keys in turn, what an admitted call used is free again before the next call of its
// key: after a millisecond in a log, after 3.6 in a bucket.

#[rate_limit(key = "user:<id>", window = "1ms", max = 1_000_000, name = "sliding")]
async fn sliding_admitted(id: u64) -> Outcome {
    Ok(())
}

#[rate_limit(key = "user:<id>", window = "1h", max = 10, name = "sliding refused")]
async fn sliding_refused(id: u64) -> Outcome {
    Ok(())
}

#[rate_limit(
    key = "user:<id>",
    window = "1h",
    max = 1_000_000,
    algorithm = "leaky_bucket",
    name = "leaky"
)]
async fn leaky_admitted(id: u64) -> Outcome {
    Ok(())
}

#[rate_limit(
    key = "user:<id>",
    window = "1h",
    max = 10,
    algorithm = "leaky_bucket",
    name = "leaky refused"
)]
async fn leaky_refused(id: u64) -> Outcome {
    Ok(())
}

/// The same by hand.
static SLIDING: Rule = Rule::new("by hand", Limit::new(1_000_000, Duration::from_millis(1)));

static LIMITER: OnceLock<RateLimiter> = OnceLock::new();

/// Installs the limiter that the attributes find, and that is asked by hand, with room for the keys
/// of all.
pub fn install() {
    let keys = NUMBERS as usize * ALL.len();
    let limiter =
        LIMITER.get_or_init(|| RateLimiter::with_store(MemoryStore::with_capacity(2 * keys)));
    limiter.clone().install();
}

static GOVERNOR: LazyLock<DefaultKeyedRateLimiter<String>> = LazyLock::new(|| {
    DefaultKeyedRateLimiter::keyed(Quota::per_hour(NonZeroU32::new(1_000_000).unwrap()))
});

static GOVERNOR_REFUSES: LazyLock<DefaultKeyedRateLimiter<String>> =
    LazyLock::new(|| DefaultKeyedRateLimiter::keyed(Quota::per_hour(NonZeroU32::MIN)));

/// One way to ask, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    Governor,
    GovernorKeyGiven,
    GovernorRefused,
    LeakyAdmitted,
    LeakyRefused,
    SlidingAdmitted,
    SlidingRefused,
    SlidingByHand,
}

pub const ALL: [Asking; 8] = [
    Asking::Governor,
    Asking::GovernorKeyGiven,
    Asking::LeakyAdmitted,
    Asking::SlidingAdmitted,
    Asking::SlidingByHand,
    Asking::GovernorRefused,
    Asking::LeakyRefused,
    Asking::SlidingRefused,
];

impl Asking {
    pub fn name(self) -> &'static str {
        match self {
            Self::Governor => "governor, key built by `format!`",
            Self::GovernorKeyGiven => "governor, key given",
            Self::GovernorRefused => "governor, refused, key built by `format!`",
            Self::LeakyAdmitted => "leaky_bucket by attribute, in memory",
            Self::LeakyRefused => "leaky_bucket by attribute, in memory, refused",
            Self::SlidingAdmitted => "sliding_window by attribute, in memory",
            Self::SlidingRefused => "sliding_window by attribute, in memory, refused",
            Self::SlidingByHand => "sliding_window by hand, in memory",
        }
    }

    pub fn is_refused(self) -> bool {
        matches!(
            self,
            Self::GovernorRefused | Self::LeakyRefused | Self::SlidingRefused
        )
    }

    /// Asks so many times, in turn for so many numbers from the first on.
    pub fn repeat(self, first: u64, numbers: u64, calls: u64) {
        let ids = || (0..calls).map(|call| first + call % numbers);
        match self {
            Self::Governor => {
                ids().for_each(|id| assert!(GOVERNOR.check_key(&format!("user:{id}")).is_ok()))
            }
            Self::GovernorKeyGiven => {
                let keys: Vec<String> = (first..first + numbers)
                    .map(|id| format!("user:{id}"))
                    .collect();
                ids().for_each(|id| {
                    assert!(GOVERNOR.check_key(&keys[(id - first) as usize]).is_ok())
                });
            }
            Self::GovernorRefused => ids().for_each(|id| {
                let _ = GOVERNOR_REFUSES.check_key(&format!("user:{id}"));
            }),
            Self::LeakyAdmitted => {
                ids().for_each(|id| assert!(at_once(leaky_admitted(id)).is_ok()))
            }
            Self::SlidingAdmitted => {
                ids().for_each(|id| assert!(at_once(sliding_admitted(id)).is_ok()))
            }
            Self::SlidingByHand => {
                let limiter = LIMITER.get_or_init(RateLimiter::memory);
                ids().for_each(|id| {
                    assert!(at_once(limiter.acquire(&SLIDING, &key!("user:<id>"))).is_ok())
                });
            }
            Self::LeakyRefused => ids().for_each(|id| drop(at_once(leaky_refused(id)))),
            Self::SlidingRefused => ids().for_each(|id| drop(at_once(sliding_refused(id)))),
        }
    }
}

/// Memory answers without waiting; a refusal gives way to other tasks now and then, and there are
/// none here.
fn at_once<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return output;
        }
    }
}

/// Calls a second on one thread, and on two with numbers of their own.
pub struct InProcess(Vec<(Asking, [f64; 2])>);

impl InProcess {
    pub fn measure(rounds: usize, time: Duration) -> Self {
        let mut runs = ALL.map(|asking| (asking, [Vec::new(), Vec::new()]));
        for _ in 0..rounds {
            for (asking, [one, two]) in &mut runs {
                one.push(per_second(*asking, 1, time));
                two.push(per_second(*asking, 2, time));
            }
        }
        Self(
            runs.into_iter()
                .map(|(asking, runs)| (asking, runs.map(median)))
                .collect(),
        )
    }

    pub fn of(&self, asking: Asking) -> [f64; 2] {
        self.0
            .iter()
            .find(|(other, _)| *other == asking)
            .map_or([f64::NAN; 2], |(_, figures)| *figures)
    }

    pub fn report(&self) -> String {
        let mut table = Table::new([
            "in process, calls/s",
            "1 thread",
            "× governor",
            "2 threads",
            "× 1 thread",
        ]);
        for (asking, [one, two]) in &self.0 {
            let governor = if asking.is_refused() {
                Asking::GovernorRefused
            } else {
                Asking::Governor
            };
            table.row([
                asking.name().to_owned(),
                number(*one),
                ratio(one / self.of(governor)[0]),
                number(*two),
                ratio(two / one),
            ]);
        }
        table.to_string()
    }
}

fn per_second(asking: Asking, threads: u64, time: Duration) -> f64 {
    let barrier = Barrier::new(threads as usize);
    let numbers = NUMBERS / threads;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let first = FIRST + thread * numbers;
                    // The refused ones are used up first.
                    asking.repeat(first, numbers, 12 * numbers);
                    barrier.wait();
                    let (start, mut calls) = (Instant::now(), 0);
                    while start.elapsed() < time {
                        asking.repeat(first, numbers, numbers);
                        calls += numbers;
                    }
                    calls as f64 / start.elapsed().as_secs_f64()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(f64::NAN))
            .sum()
    })
}

async fn bare(id: u64) -> Outcome {
    tokio::task::yield_now().await;
    let _ = id;
    Ok(())
}

#[rate_limit(key = "user:<id>", window = "60s", max = 3, name = "size a")]
#[rate_limit(key = "user:<id>", window = "61s", max = 3, name = "size b")]
async fn twice(id: u64) -> Outcome {
    Ok(())
}

/// Bytes of a future: bare, with one attribute, with two.
pub fn future_bytes() -> [usize; 3] {
    [
        size_of_val(&bare(1)),
        size_of_val(&sliding_refused(1)),
        size_of_val(&twice(1)),
    ]
}

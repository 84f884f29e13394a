//! One check after another on a known key in memory, by `governor` and by us.

mod clock;
#[path = "../../../support/deny_cache.rs"]
#[allow(dead_code, reason = "other programs use more of it")]
mod deny_cache;
mod far;
mod full;
mod governor;

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ratelimit_runtime::__private::TokioClock;
use ratelimit_runtime::{MemoryStore, RateLimiter};

use self::clock::{Ticking, read};
use self::deny_cache::DenyCache;
use self::far::Far;
pub use self::full::Full;
use self::governor::Governor;
use crate::ours;

/// The key of all checks.
const USER: &str = "alice@example.com";

/// The work of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Governor,
    GovernorDenied,
    Leaky,
    /// By a bucket that is empty again at each check.
    LeakyAnew,
    LeakyRefused,
    Sliding,
    SlidingRefused,
    /// Refused by a log of 10,000, of which a thousand have to leave first.
    SlidingRefusedLong,
    /// Refused again by a deny cache, whose store has to be waited for.
    RefusedAgain,
    /// By hand instead of by the attribute.
    ByHand,
    Token,
    Counter,
    Fixed,
    /// The clock that a store has by default, read alone.
    Clock,
    /// The clock that it is measured with, read alone.
    Ticking,
}

impl Work {
    pub const ALL: [Self; 15] = [
        Self::Governor,
        Self::GovernorDenied,
        Self::Leaky,
        Self::LeakyAnew,
        Self::LeakyRefused,
        Self::Sliding,
        Self::SlidingRefused,
        Self::SlidingRefusedLong,
        Self::RefusedAgain,
        Self::ByHand,
        Self::Token,
        Self::Counter,
        Self::Fixed,
        Self::Clock,
        Self::Ticking,
    ];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|work| format!("{work:?}") == name)
    }

    /// Whether a check reads the clock that is measured with.
    #[must_use]
    pub fn reads_ticking(self) -> bool {
        !matches!(
            self,
            Self::Governor
                | Self::GovernorDenied
                | Self::RefusedAgain
                | Self::Clock
                | Self::Ticking
        )
    }

    fn is_refused(self) -> bool {
        match self {
            Self::GovernorDenied
            | Self::LeakyRefused
            | Self::SlidingRefused
            | Self::SlidingRefusedLong
            | Self::RefusedAgain => true,
            Self::Governor
            | Self::Leaky
            | Self::LeakyAnew
            | Self::Sliding
            | Self::ByHand
            | Self::Token
            | Self::Counter
            | Self::Fixed
            | Self::Clock
            | Self::Ticking => false,
        }
    }
}

/// Work whose key is known and whose log has reached its size.
#[derive(Debug)]
pub struct Ready {
    work: Work,
    governor: Governor,
    limiter: RateLimiter,
    clock: Ticking,
    runtime: tokio::runtime::Runtime,
}

impl Ready {
    #[must_use]
    pub fn new(work: Work) -> Self {
        let clock = Ticking::new();
        let memory = MemoryStore::new().with_clock(clock.clone());
        let limiter = if work == Work::RefusedAgain {
            // Longer than any run, so that it never asks again.
            RateLimiter::with_store(
                DenyCache::new(Far(memory)).with_staleness(Duration::from_secs(60 * 60)),
            )
        } else {
            RateLimiter::with_store(memory)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let governor = Governor::new(work == Work::GovernorDenied);
        let ready = Self {
            work,
            governor,
            limiter,
            clock,
            runtime,
        };
        if work == Work::SlidingRefusedLong {
            ready.poll(repeat(ours::LONG, || ours::long(USER, 1)));
        } else if work.is_refused() {
            ready.run(2 * ours::MAX);
        } else {
            // Half of it is used up at once. Then a unit comes free for each check.
            ready.run(ours::MAX / 2);
            ready.clock.tick_by(if work == Work::LeakyAnew {
                100 * ours::EVERY
            } else {
                ours::EVERY
            });
            ready.run(3 * ours::MAX);
        }
        assert_eq!(ready.run(1), u64::from(!work.is_refused()), "{work:?}");
        ready
    }

    /// Makes so many checks. Tools find it by its name.
    #[inline(never)]
    pub fn measured(&self, checks: u64) {
        black_box(self.run(checks));
    }

    /// Makes so many checks; says how many were admitted.
    fn run(&self, checks: u64) -> u64 {
        match self.work {
            Work::Governor | Work::GovernorDenied => {
                self.poll(repeat(checks, async || self.governor.check(USER)))
            }
            Work::Leaky | Work::LeakyAnew | Work::LeakyRefused => {
                self.poll(repeat(checks, || ours::leaky(USER)))
            }
            Work::Sliding | Work::SlidingRefused | Work::RefusedAgain => {
                self.poll(repeat(checks, || ours::sliding(USER)))
            }
            Work::SlidingRefusedLong => self.poll(repeat(checks, || ours::long(USER, ours::HEAVY))),
            Work::ByHand => self.poll(repeat(checks, || ours::by_hand(&self.limiter, USER))),
            Work::Token => self.poll(repeat(checks, || ours::token(USER))),
            Work::Counter => self.poll(repeat(checks, || ours::counter(USER))),
            Work::Fixed => self.poll(repeat(checks, || ours::fixed(USER))),
            Work::Clock => read(&TokioClock::new(), checks),
            Work::Ticking => read(&self.clock, checks),
        }
    }

    /// Polls once, with a waker that wakes nobody: refusals give way to other tasks by time, and a
    /// program whose instructions are counted is so slow that nearly each of them would.
    fn poll(&self, work: impl Future<Output = u64>) -> u64 {
        let _runtime = self.runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        match pin!(self.limiter.scope(work)).poll(&mut cx) {
            Poll::Ready(admitted) => admitted,
            Poll::Pending => panic!("memory did not answer at once"),
        }
    }
}

async fn repeat<T, E>(checks: u64, mut check: impl AsyncFnMut() -> Result<T, E>) -> u64 {
    let mut admitted = 0;
    for _ in 0..checks {
        admitted += u64::from(black_box(check().await).is_ok());
    }
    admitted
}

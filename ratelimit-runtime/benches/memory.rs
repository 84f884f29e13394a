//! Checks in the memory of the process, beside governor's, on one thread and on two with keys of
//! their own.
//!
//!     cargo bench -p ratelimit-runtime
//!
//! Every side is given a number and makes its key of it. `scripts/bench.sh` counts the instructions
//! of the same.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    missing_docs,
    reason = "a benchmark"
)]

use std::cell::Cell;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use divan::{Bencher, black_box};
use governor::{DefaultKeyedRateLimiter, Quota};
use ratelimit_runtime::{Limit, RateLimitError, RateLimiter, Rule, key, rate_limit};

type Outcome = Result<(), RateLimitError>;

/// How many keys each thread has.
const KEYS: u64 = 1_000;

fn main() {
    LIMITER.clone().install();
    divan::main();
}

static LIMITER: LazyLock<RateLimiter> = LazyLock::new(RateLimiter::memory);

/// Asks for a number of this thread, again and again.
fn ask<T>(bencher: Bencher<'_, '_>, mut before: impl FnMut(u64), asked: impl Fn(u64) -> T + Sync) {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NEXT: Cell<u64> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) % 8 * KEYS);
    }
    (0..8 * KEYS).for_each(&mut before);
    bencher.bench(|| {
        let id = NEXT.get();
        NEXT.set(if (id + 1).is_multiple_of(KEYS) {
            id + 1 - KEYS
        } else {
            id + 1
        });
        asked(black_box(id))
    });
}

/// Memory answers without waiting.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the memory store does not wait"),
    }
}

mod admitted {
    use super::*;

    #[divan::bench(threads = [1, 2])]
    fn governor(bencher: Bencher<'_, '_>) {
        static GOVERNOR: LazyLock<DefaultKeyedRateLimiter<String>> =
            LazyLock::new(|| DefaultKeyedRateLimiter::keyed(Quota::per_second(NonZeroU32::MAX)));
        ask(
            bencher,
            |_| {},
            |id| GOVERNOR.check_key(&format!("user:{id}")).is_ok(),
        );
    }

    #[divan::bench(threads = [1, 2])]
    fn governor_key_given(bencher: Bencher<'_, '_>) {
        static GOVERNOR: LazyLock<DefaultKeyedRateLimiter<String>> =
            LazyLock::new(|| DefaultKeyedRateLimiter::keyed(Quota::per_second(NonZeroU32::MAX)));
        let keys: Vec<String> = (0..KEYS).map(|id| format!("user:{id}")).collect();
        ask(
            bencher,
            |_| {},
            |id| {
                GOVERNOR
                    .check_key(&keys[usize::try_from(id % KEYS).unwrap()])
                    .is_ok()
            },
        );
    }

    #[rate_limit(
        key = "user:<id>",
        window = "1s",
        max = 100_000_000,
        algorithm = "leaky_bucket",
        name = "leaky"
    )]
    async fn leaky(id: u64) -> Outcome {
        Ok(())
    }

    #[divan::bench(threads = [1, 2])]
    fn leaky_bucket(bencher: Bencher<'_, '_>) {
        ask(bencher, |_| {}, |id| at_once(leaky(id)).is_ok());
    }

    // The window is short: entries leave as they come, so the log has reached its size.
    #[rate_limit(key = "user:<id>", window = "1ms", max = 1_000_000, name = "sliding")]
    async fn sliding(id: u64) -> Outcome {
        Ok(())
    }

    #[divan::bench(threads = [1, 2])]
    fn sliding_window(bencher: Bencher<'_, '_>) {
        ask(bencher, |_| {}, |id| at_once(sliding(id)).is_ok());
    }

    #[divan::bench(threads = [1, 2])]
    fn sliding_window_by_hand(bencher: Bencher<'_, '_>) {
        static RULE: Rule = Rule::new("by hand", Limit::new(1_000_000, Duration::from_millis(1)));
        ask(
            bencher,
            |_| {},
            |id| at_once(LIMITER.acquire(&RULE, &key!("user:<id>"))).is_ok(),
        );
    }
}

mod refused {
    use super::*;

    #[divan::bench(threads = [1, 2])]
    fn governor(bencher: Bencher<'_, '_>) {
        static GOVERNOR: LazyLock<DefaultKeyedRateLimiter<String>> =
            LazyLock::new(|| DefaultKeyedRateLimiter::keyed(Quota::per_hour(NonZeroU32::MIN)));
        let use_up = |id| drop(GOVERNOR.check_key(&format!("user:{id}")));
        ask(bencher, use_up, |id| {
            GOVERNOR.check_key(&format!("user:{id}")).is_ok()
        });
    }

    #[rate_limit(
        key = "user:<id>",
        window = "1h",
        max = 1,
        algorithm = "leaky_bucket",
        name = "leaky refused"
    )]
    async fn leaky(id: u64) -> Outcome {
        Ok(())
    }

    #[divan::bench(threads = [1, 2])]
    fn leaky_bucket(bencher: Bencher<'_, '_>) {
        ask(
            bencher,
            |id| drop(at_once(leaky(id))),
            |id| at_once(leaky(id)).is_ok(),
        );
    }

    #[rate_limit(key = "user:<id>", window = "1h", max = 1, name = "sliding refused")]
    async fn sliding(id: u64) -> Outcome {
        Ok(())
    }

    #[divan::bench(threads = [1, 2])]
    fn sliding_window(bencher: Bencher<'_, '_>) {
        ask(
            bencher,
            |id| drop(at_once(sliding(id))),
            |id| at_once(sliding(id)).is_ok(),
        );
    }
}

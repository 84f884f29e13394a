//! [`Large`]: what decisions under large limits cost a redis-server, beside the same under a small
//! one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::clock::Clock;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::server::CountedServer;

const KEYS: u64 = 512;

/// What the server is asked, for many keys at once; the last two in the second half of the window
/// after one that was used up.
pub const LARGE_COLUMNS: [&str; 5] = [
    "fresh keys",
    "known keys",
    "refused",
    "next window",
    "refused then",
];

/// Instructions per decision, in the order of [`LARGE_COLUMNS`].
type Counts = [u64; LARGE_COLUMNS.len()];

/// The same under a limit.
type UnderLimit = (Limit, Counts);

/// What a decision costs, for each algorithm whose memory does not grow with its limit: under a
/// small limit, and under each of some large ones.
#[derive(Debug)]
pub struct Large(pub Vec<(Algorithm, Counts, Vec<UnderLimit>)>);

impl Large {
    /// Measures a row for every limit of every such algorithm.
    pub fn measure(server: &mut CountedServer) -> Self {
        let month = Duration::from_secs(30 * 86_400);
        let limits = [
            Limit::per_minute(100_000),
            Limit::per_day(100_000),
            Limit::per_day(1_000_000),
            Limit::new(10_000_000, month),
            Limit::new(1_000_000_000, month),
        ];
        // Both buckets have one script.
        let algorithms = [
            Algorithm::SlidingCounter,
            Algorithm::FixedWindow,
            Algorithm::TokenBucket,
        ];
        let rows = algorithms.map(|algorithm| {
            let mut figures = |limit| figures(server, algorithm, limit);
            let small = figures(Limit::per_hour(100));
            let large = limits.map(|limit| (limit, figures(limit)));
            (algorithm, small, large.into())
        });
        Self(rows.into())
    }
}

/// A clock that is moved by hand.
struct Moved(AtomicU64);

impl Clock for Moved {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

fn figures(server: &mut CountedServer, algorithm: Algorithm, limit: Limit) -> Counts {
    server.empty();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // What is refused is asked again.
    let store = || RedisStore::new(&server.url()).unwrap().deny_cache(false);
    let clock = Arc::new(Moved(AtomicU64::new(1_700_000_000_000_000)));
    let stores = [store(), store().with_clock(Arc::clone(&clock))].map(|store| {
        store.answers_within(super::COUNTED);
        runtime.block_on(store.ready()).unwrap();
        Arc::new(store)
    });
    let [by_server, by_clock] = [(&stores[0], "server"), (&stores[1], "clock")];
    let ask = |(store, name): (&Arc<RedisStore>, &'static str), cost| {
        asked(&runtime, store, (algorithm, limit, name), cost)
    };
    // Lua collects its garbage in some of them.
    let counted = |server: &mut CountedServer, of: [_; 2], cost| {
        let counts = of.map(|of| server.instructions(|| assert_eq!(ask(of, cost), KEYS)));
        counts.into_iter().sum::<u64>() / (2 * KEYS)
    };
    let refused = |server: &mut CountedServer, of, cost| {
        let counts = [(); 3].map(|()| server.instructions(|| assert_eq!(ask(of, cost), 0)));
        counts.into_iter().min().unwrap() / KEYS
    };
    // So much that a bucket does not drain meanwhile.
    let (max, cost) = (limit.max(), limit.max() / 8);
    let fresh = counted(server, [by_server, (by_server.0, "other")], cost);
    let known = counted(server, [by_server; 2], cost);
    ask(by_server, max - 3 * cost);
    let full = refused(server, by_server, max / 2);

    let window = u64::try_from(limit.window().as_micros()).unwrap();
    ask(by_clock, max);
    clock.0.fetch_add(window / 2 * 3, Ordering::Relaxed);
    ask(by_clock, cost);
    let next = counted(server, [by_clock; 2], cost);
    // Buckets and fixed windows have room by then.
    ask(by_clock, max / 2);
    let then = refused(server, by_clock, max / 4 * 3);
    [fresh, known, full, next, then]
}

/// A call for each key, all at once; how many were admitted.
fn asked(
    runtime: &Runtime,
    store: &Arc<RedisStore>,
    (algorithm, limit, name): (Algorithm, Limit, &'static str),
    cost: u64,
) -> u64 {
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for key in 0..KEYS {
            let store = Arc::clone(store);
            running.spawn(async move {
                let (key, limits) = (format!("{name}:user{key}"), [limit]);
                let request = Request::new(key.as_bytes(), algorithm, &limits).with_cost(cost);
                u64::from(store.acquire(request).await.unwrap().allowed)
            });
        }
        running.join_all().await.into_iter().sum()
    })
}

impl fmt::Display for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = Vec::new();
        for (algorithm, small, large) in &self.0 {
            rows.push((algorithm.to_string(), *small));
            let name = |limit: &Limit| format!("{algorithm} {limit}");
            rows.extend(large.iter().map(|(limit, counts)| (name(limit), *counts)));
        }
        super::rows(f, "large limits", LARGE_COLUMNS, &rows)
    }
}

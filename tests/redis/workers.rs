//! Calls that share commands, from several threads and several processes: every one is counted, and
//! counted once.

#![allow(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisStore, Store};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::PATIENCE;
use crate::support::random::{Random, seed};
use crate::support::redis::RedisServer;
use crate::support::unique;

const TASKS: usize = 64;
const CALLS: usize = 120;
const HOUR: Duration = Duration::from_secs(3_600);

/// What callers hold of each key.
struct Held(Vec<AtomicU64>);

impl Held {
    /// Adds what was charged a moment ago; so it is never above what the server counts.
    fn add(&self, key: usize, cost: u64, max: u64) {
        let held = self.0[key].fetch_add(cost, Ordering::SeqCst) + cost;
        assert!(held <= max, "{held} of {max} are held of key {key}");
    }

    /// Before it is given back.
    fn take(&self, key: usize, cost: u64) {
        self.0[key].fetch_sub(cost, Ordering::SeqCst);
    }
}

/// Asks for random keys with random costs, reserves some, and gives some back.
async fn hold_and_give_back(
    store: Arc<RedisStore>,
    name: String,
    held: Arc<Held>,
    max: u64,
    mut random: Random,
) -> usize {
    let (mut mine, mut admitted): (Vec<(usize, u64, u64)>, _) = (Vec::new(), 0);
    for _ in 0..CALLS {
        let limits = [Limit::new(max, HOUR)];
        if random.below(3) == 0 && !mine.is_empty() {
            let given = usize::try_from(random.below(mine.len() as u64)).unwrap();
            let (key, cost, ticket) = mine.swap_remove(given);
            held.take(key, cost);
            let key = format!("{name}:{key}");
            let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits).with_cost(cost);
            assert!(store.refund(request, ticket).await.unwrap(), "it is there to be given back");
            continue;
        }
        let key = usize::try_from(random.below(held.0.len() as u64)).unwrap();
        let cost = if random.below(4) == 0 { 2 + random.below(2) } else { 1 };
        let reserves = random.below(4) == 0;
        let stored = format!("{name}:{key}");
        let request = Request::new(stored.as_bytes(), Algorithm::SlidingWindow, &limits).with_cost(cost);
        let request = if reserves { request.reserving() } else { request };
        let verdict = store.acquire(request).await.unwrap();
        if !verdict.allowed {
            continue;
        }
        admitted += 1;
        held.add(key, cost, max);
        match random.below(2) {
            _ if !reserves => mine.push((key, cost, verdict.ticket)),
            0 => {
                held.take(key, cost);
                assert!(store.settle(request, verdict.ticket, 0).await.unwrap().was_open, "it is there to be released");
            }
            _ => {
                assert!(
                    store.settle(request, verdict.ticket, cost).await.unwrap().was_open,
                    "it is there to be committed"
                );
            }
        }
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_workers_count_exactly_on_few_keys_and_on_many() {
    let mut random = Random::new(seed());
    let server = RedisServer::start();
    for (keys, max) in [(2, 90), (2, 100_000), (300, 6)] {
        {
            let store = RedisStore::new(&server.url()).unwrap().deny_cache(false);
            let (store, name) = (Arc::new(store), unique("workers"));
            store.ready().await.unwrap();
            let held = Arc::new(Held((0..keys).map(|_| AtomicU64::new(0)).collect()));
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let (store, held) = (Arc::clone(&store), Arc::clone(&held));
                tasks.spawn(hold_and_give_back(store, name.clone(), held, max, random.fork()));
            }
            let admitted = timeout(4 * PATIENCE, tasks.join_all()).await.unwrap().into_iter().sum::<usize>();
            assert!(admitted > TASKS, "{admitted}");
            for (key, held) in held.0.iter().enumerate() {
                let (key, limits) = (format!("{name}:{key}"), [Limit::new(max, HOUR)]);
                let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
                let left = store.peek(request).await.unwrap().remaining;
                assert_eq!(left, max - held.load(Ordering::SeqCst), "{key}");
            }
        }
    }
}

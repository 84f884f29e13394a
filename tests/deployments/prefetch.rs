//! Units that are taken ahead, where the master changes and where slots move.

use std::sync::Arc;
use std::time::Instant;

use ratelimit_runtime::store::{Request, StoreError};
use ratelimit_runtime::{Algorithm, Limit, Store as _};
use tokio::time::sleep;

use super::*;
use crate::support::cluster::RedisCluster;
use crate::support::until;

const MAX: u64 = 1_000;

/// Buckets refill by a unit each thousand seconds.
static LIMITS: [Limit; 1] = [Limit::new(MAX, Duration::from_secs(1_000_000))];

/// A key of one algorithm, what was admitted of it, and how much of that from memory.
struct Spent {
    key: String,
    algorithm: Algorithm,
    admitted: u64,
    ahead: u64,
    failed: Vec<StoreError>,
}

impl Spent {
    /// A call, and whether it was admitted.
    async fn call(&mut self, store: &RedisStore, lease: Duration) -> bool {
        let request = Request::new(self.key.as_bytes(), self.algorithm, &LIMITS);
        let called = store.acquire(request.with_prefetch(lease)).await;
        let verdict = match called {
            Ok(verdict) => verdict,
            Err(error) => {
                self.failed.push(error);
                return false;
            }
        };
        self.admitted += u64::from(verdict.allowed);
        self.ahead += u64::from(verdict.allowed && verdict.cached);
        verdict.allowed
    }

    async fn used(&self, store: &RedisStore) -> u64 {
        let request = Request::new(self.key.as_bytes(), self.algorithm, &LIMITS);
        MAX - store.peek(request).await.unwrap().remaining
    }
}

fn each_algorithm(deployment: &Deployment) -> Vec<Spent> {
    let of = |&algorithm: &Algorithm| Spent {
        key: deployment.key(),
        algorithm,
        admitted: 0,
        ahead: 0,
        failed: Vec::new(),
    };
    Algorithm::ALL.iter().map(of).collect()
}

/// What was taken ahead of the old master is spent until the process hears of the new one, and is
/// void then: charged, and not given back. Beside that, all of the limit is admitted.
#[tokio::test]
async fn units_that_were_taken_ahead_pass_no_bound_across_a_fail_over() {
    const LEASE: Duration = Duration::from_secs(10);
    for deployment in [Deployment::sentinel(), Deployment::replicated_cluster()] {
        let store = ready(deployment.store().deny_cache(false)).await;
        let other = deployment.store().deny_cache(false);
        let mut all = each_algorithm(&deployment);
        for spent in &mut all {
            while spent.ahead == 0 {
                assert!(
                    spent.call(&store, LEASE).await,
                    "{deployment}, {}",
                    spent.algorithm
                );
                sleep(Duration::from_millis(1)).await;
            }
        }
        deployment.fail_over();
        let other = ready(other).await;
        let mut lost = Vec::new();
        for spent in &all {
            lost.push(spent.used(&other).await - spent.admitted);
        }
        for (spent, lost) in all.iter_mut().zip(lost) {
            assert!(
                lost > 0,
                "{deployment}, {}: some are taken ahead",
                spent.algorithm
            );
            let start = Instant::now();
            while spent.admitted < MAX - lost {
                spent.call(&store, LEASE).await;
                let admitted = spent.admitted;
                assert!(
                    start.elapsed() < PATIENCE,
                    "{deployment}: {admitted} of {}",
                    spent.algorithm
                );
            }
            // Some are refused, or spend what is still held.
            for _ in 0..100 {
                spent.call(&store, LEASE).await;
            }
        }
        store.settled().await.unwrap();
        for spent in &all {
            let used = spent.used(&other).await;
            let Spent {
                algorithm,
                admitted,
                ahead,
                ..
            } = spent;
            let context = format!("{deployment}, {algorithm}: {admitted} admitted, {ahead} ahead");
            println!("{context}, {used} used");
            assert!((*admitted..=MAX).contains(&used), "{context}");
        }
    }
}

/// Callers who spend while the slot of their key goes to and fro are admitted `max` times. A caller
/// that finds the lease over on a thread that stands still may lose the one unit that it has taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_spend_units_taken_ahead_while_their_slot_moves_lose_no_lease() {
    const LEASE: Duration = Duration::from_millis(200);
    const MOVES: u32 = 3;
    /// As long as nodes may still talk of the last move: told of the next one, two that hear of an
    /// older one name each other for good.
    const TALK: Duration = Duration::from_millis(100);
    // Of two masters that disagree on who has a slot, no third one says who is right.
    let deployment = Deployment::Cluster(RedisCluster::start(3, 0));
    let store = deployment.store();
    let store = Arc::new(ready(store).await);
    let spending: Vec<_> = each_algorithm(&deployment)
        .into_iter()
        .map(|mut spent| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut last = Instant::now();
                while spent.admitted < MAX && last.elapsed() < PATIENCE / 4 {
                    if spent.call(&store, LEASE).await {
                        last = Instant::now();
                    }
                    sleep(Duration::from_micros(500)).await;
                }
                spent
            })
        })
        .collect();
    let Deployment::Cluster(cluster) = &deployment else {
        panic!("{deployment} has no slots")
    };
    for _ in 0..MOVES {
        tokio::task::block_in_place(|| {
            let keys = [0, 1, 2].map(|node| cluster.node(node).cli(&["KEYS", "key-*"]));
            for key in keys.iter().flat_map(|keys| keys.lines()) {
                let slot = cluster.slot(key.as_bytes());
                cluster.move_slot(slot, (cluster.owner(slot) + 1) % 3);
                std::thread::sleep(TALK);
            }
        });
    }
    // On a busy machine a key may be called too seldom for it.
    let mut ahead = 0;
    for spending in spending {
        let mut spent = spending.await.unwrap();
        let context = format!(
            "{}: {} admitted, {} ahead, {:?}",
            spent.algorithm, spent.admitted, spent.ahead, spent.failed
        );
        println!("{context}");
        assert!((MAX - 5..=MAX).contains(&spent.admitted), "{context}");
        ahead += spent.ahead;
        let all_used = async || spent.used(&store).await == MAX;
        until("what is left is given back", PATIENCE, all_used).await;
        for _ in 0..100 {
            assert!(!spent.call(&store, LEASE).await, "{context}");
        }
    }
    assert!(ahead > 0, "nothing was taken ahead");
}

//! Known refusals: repeated without asking, no longer than the servers would refuse, and void with
//! what the servers have forgotten.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use ratelimit_runtime::store::{Request, Verdict};
use ratelimit_runtime::{Algorithm, Decision, Key, Limit, RateLimiter, Rule, Store as _};
use tokio::time::sleep;

use super::*;
use crate::support::cluster::RedisCluster;
use crate::support::{eventually, unique, until};

const WAIT: Duration = Duration::from_millis(600);

fn request<'a>(key: &'a str, limits: &'a [Limit]) -> Request<'a> {
    Request::new(key.as_bytes(), Algorithm::SlidingWindow, limits)
}

/// A store that keeps a refusal for as long as that says, not for a second only: what else ends it
/// is seen.
async fn store(deployment: &Deployment) -> RedisStore {
    let mut store = deployment.store();
    store.known_mut().set_staleness(HOUR);
    ready(store).await
}

/// Asks until the servers decide: after a fail-over the store has to find the new master.
async fn decided(store: &RedisStore, request: Request<'_>) -> Verdict {
    let start = Instant::now();
    loop {
        match store.acquire(request).await {
            Ok(verdict) => return verdict,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Calls until a refusal is known.
async fn refused(store: &RedisStore, request: Request<'_>) -> Verdict {
    let start = Instant::now();
    loop {
        let verdict = decided(store, request).await;
        if verdict.cached {
            assert!(!verdict.allowed);
            return verdict;
        }
        assert!(start.elapsed() < PATIENCE, "{verdict:?}");
    }
}

/// Uses up the limit of a key, and holds its refusal to be repeated until the wait is over that it
/// tells, and no longer.
async fn refused_until_its_wait_is_over(
    deployment: &Deployment,
    store: &RedisStore,
    key: &str,
    meanwhile: impl FnOnce(),
) {
    let limits = [Limit::new(1, WAIT)];
    let request = request(key, &limits);
    while !decided(store, request).await.allowed {}
    let refusal = refused(store, request).await;
    let ends = Instant::now() + refusal.retry_after().unwrap();
    let asked = deployment.scripts_run();
    meanwhile();
    let ends = ends.max(Instant::now());
    let mut repeated = 0;
    let admitted = loop {
        let verdict = decided(store, request).await;
        if verdict.allowed {
            break Instant::now();
        }
        repeated += u64::from(verdict.cached);
        sleep(Duration::from_millis(2)).await;
    };
    assert!(repeated > 5, "{deployment}: {repeated} refusals");
    // The one that is admitted, and those that are sent early by the time that a reply takes.
    let asked = deployment.scripts_run() - asked;
    assert!(
        (1..=4).contains(&asked),
        "{deployment}: asked {asked} times"
    );
    let late = admitted.saturating_duration_since(ends);
    println!("{deployment}: {repeated} refusals, the last {late:?} late");
    assert!(
        late < 3 * SLACK,
        "{deployment}: refused for {late:?} too long"
    );
}

async fn refused_before_and_after_a_fail_over(deployment: Deployment) {
    let (store, key) = (store(&deployment).await, deployment.key());
    refused_until_its_wait_is_over(&deployment, &store, &key, || {}).await;
    if let Deployment::Cluster(cluster) = &deployment {
        // It goes along with its slot.
        let slot = cluster.slot(key.as_bytes());
        for to in [1, 0] {
            let moves = || cluster.move_slot(slot, to);
            refused_until_its_wait_is_over(&deployment, &store, &key, moves).await;
        }
    }
    deployment.fail_over();
    refused_until_its_wait_is_over(&deployment, &store, &key, || {}).await;
    assert_eq!(deployment.replica().cli(&["EXISTS", &key]), "1");
}

#[tokio::test]
async fn a_refused_key_is_refused_without_asking_until_its_wait_is_over_behind_sentinel() {
    refused_before_and_after_a_fail_over(Deployment::sentinel()).await;
}

#[tokio::test]
async fn a_refused_key_is_refused_without_asking_until_its_wait_is_over_on_a_cluster() {
    refused_before_and_after_a_fail_over(Deployment::replicated_cluster()).await;
}

#[tokio::test]
async fn reset_unblock_and_a_new_connection_void_what_is_known() {
    let limits = [Limit::per_hour(1)];
    for deployment in [
        Deployment::one_server(),
        Deployment::sentinel(),
        Deployment::cluster(),
    ] {
        let (store, key) = (store(&deployment).await, deployment.key());
        let request = request(&key, &limits);
        let is_admitted = async || decided(&store, request).await.allowed;
        let _ = refused(&store, request).await;
        assert!(store.reset(request).await.unwrap());
        assert!(is_admitted().await, "{deployment}: a reset");

        assert!(store.reset(request).await.unwrap());
        store.block(request, HOUR).await.unwrap();
        assert!(refused(&store, request).await.blocked);
        assert!(store.unblock(request).await.unwrap());
        assert!(is_admitted().await, "{deployment}: an unblock");

        let _ = refused(&store, request).await;
        let server = deployment.server();
        server.cli(&["UNLINK", &key]);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        // The process has to see that its connection has ended.
        let is_seen = async || is_admitted().await;
        until("a new connection", PATIENCE, is_seen).await;
    }
}

/// A connection of another runtime tells nothing of what the servers have lost.
#[tokio::test]
async fn a_second_runtime_that_connects_leaves_what_is_known() {
    let limits = [Limit::new(1_000, HOUR)];
    for deployment in [
        Deployment::one_server(),
        Deployment::sentinel(),
        Deployment::cluster(),
    ] {
        let store = Arc::new(store(&deployment).await);
        let [refused_key, held] = [(); 2].map(|()| deployment.key());
        let is_refused = request(&refused_key, &limits).with_cost(1_000);
        let _ = refused(&store, is_refused).await;
        let lease = Duration::from_secs(10);
        let is_held = request(&held, &limits).with_prefetch(lease);
        let ahead = async || decided(&store, is_held).await.cached;
        until("units are taken ahead", PATIENCE, ahead).await;

        let connects = tokio::task::spawn_blocking({
            let (store, keys) = (Arc::clone(&store), [(); 8].map(|()| deployment.key()));
            move || {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.block_on(async {
                    for key in &keys {
                        let _ = decided(&store, request(key, &[Limit::per_hour(1)])).await;
                    }
                });
            }
        });
        connects.await.unwrap();
        assert!(
            decided(&store, is_refused).await.cached,
            "{deployment}: a refusal"
        );
        assert!(decided(&store, is_held).await.cached, "{deployment}: units");
    }
}

/// The new master may have lost a key, and with it what refuses.
#[tokio::test]
async fn a_fail_over_voids_what_is_known() {
    let limits = [Limit::per_hour(1)];
    for mut deployment in [Deployment::sentinel(), Deployment::replicated_cluster()] {
        let store = ready(deployment.store()).await;
        let key = deployment.key();
        let request = request(&key, &limits);
        let _ = refused(&store, request).await;
        deployment.lose_master();
        deployment.replica().cli(&["UNLINK", &key]);
        let is_admitted = async || decided(&store, request).await.allowed;
        let took = until("the new master is asked", PATIENCE, is_admitted).await;
        println!("{deployment}: asked {took:?} after the fail-over");
    }
}

/// One call that the old master redirects is enough for all keys that it had.
#[tokio::test]
async fn a_fail_over_that_one_call_is_told_of_voids_what_is_known_of_other_keys() {
    let limits = [Limit::per_hour(1)];
    for deployment in [Deployment::sentinel(), Deployment::replicated_cluster()] {
        let store = store(&deployment).await;
        let keys: Vec<_> = (0..4).map(|_| deployment.key()).collect();
        for key in &keys {
            let _ = refused(&store, request(key, &limits)).await;
        }
        deployment.fail_over();
        for key in &keys {
            deployment.replica().cli(&["UNLINK", key]);
        }
        assert!(
            decided(&store, request(&deployment.key(), &limits))
                .await
                .allowed
        );
        for key in &keys {
            let is_admitted = async || decided(&store, request(key, &limits)).await.allowed;
            until("the new master is asked", PATIENCE, is_admitted).await;
        }
    }
}

/// Each of them is redirected before the slots are asked for.
#[tokio::test]
async fn a_fail_over_that_many_calls_are_told_of_at_once_voids_what_is_known_of_all() {
    let limits = [Limit::per_hour(1)];
    let deployment = Deployment::replicated_cluster();
    let store = store(&deployment).await;
    let keys: Vec<_> = (0..8).map(|_| deployment.key()).collect();
    for key in &keys {
        let _ = refused(&store, request(key, &limits)).await;
    }
    deployment.fail_over();
    for key in &keys {
        deployment.replica().cli(&["UNLINK", key]);
    }
    join_all(keys.iter().map(|key| store.peek(request(key, &limits)))).await;
    for key in &keys {
        let is_admitted = async || decided(&store, request(key, &limits)).await.allowed;
        until("the new master is asked", PATIENCE, is_admitted).await;
    }
}

/// A block outlives the second that a refusal is known for while its server is away, and no longer:
/// the process notices that another server is the master though it has nothing else to ask.
#[tokio::test]
async fn a_block_that_another_process_lifts_after_a_fail_over_ends_soon() {
    let limits = [Limit::per_hour(1)];
    for mut deployment in [Deployment::sentinel(), Deployment::replicated_cluster()] {
        let store = ready(deployment.store()).await;
        let key = deployment.key();
        let request = request(&key, &limits);
        store.block(request, HOUR).await.unwrap();
        assert!(refused(&store, request).await.blocked);
        deployment.lose_master();
        let operator = ready(deployment.store()).await;
        assert!(operator.unblock(request).await.unwrap(), "{deployment}");
        let is_admitted = async || store.acquire(request).await.is_ok_and(|call| call.allowed);
        let took = until("the block ends", PATIENCE, is_admitted).await;
        println!("{deployment}: the block ended {took:?} after it was lifted");
    }
}

/// What is left of the cluster answers, and says that the cluster is down.
#[tokio::test]
async fn a_block_lasts_while_a_cluster_is_down() {
    let mut cluster = RedisCluster::start(2, 0);
    let prefix = unique("down");
    let builder = RateLimiter::builder().redis(&cluster.url());
    let limiter = builder.prefix(prefix.as_str()).build().unwrap();
    limiter.ready().await.unwrap();
    let rule = Rule::new("down", Limit::per_hour(1)).with_block(HOUR);
    let is_on_the_first = |number: &u64| {
        let stored = format!("{prefix}:rl1:sw-3600s:down:<{number}>");
        cluster.owner_of_key(stored.as_bytes()) == 0
    };
    let key = Key::of(&(0..1_000).find(is_on_the_first).unwrap());
    let _ = limiter.acquire(&rule, &key).await.unwrap();
    assert!(limiter.acquire(&rule, &key).await.is_err());
    cluster.kill(1);
    let is_down = || {
        let info = cluster.node(0).cli(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:fail")
    };
    assert!(eventually(is_down));
    // Longer than a refusal is known while its server serves.
    sleep(Duration::from_millis(1_100)).await;
    let refused = limiter.acquire(&rule, &key).await.unwrap_err();
    assert!(refused.decision().is_some_and(Decision::is_blocked));
}

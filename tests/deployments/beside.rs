//! What a process has of one node of a cluster, while its connections to the other end again and
//! again.

use std::sync::Arc;
use std::time::Instant;

use ratelimit_runtime::__private::PermitRequest;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, Store as _};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;

/// How often connections end, a pause before each.
const ENDS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(40);
const MAX: u64 = 1_000;

/// Buckets refill by a unit each thousand seconds.
static LIMITS: [Limit; 1] = [Limit::new(MAX, Duration::from_secs(1_000_000))];

/// A store on a cluster, of whose second node a caller asks something each millisecond.
struct Site {
    deployment: Deployment,
    store: Arc<RedisStore>,
    _calling: JoinSet<()>,
}

impl Site {
    async fn new() -> Self {
        let deployment = Deployment::cluster();
        let store = deployment.store();
        let store = Arc::new(ready(store).await);
        let (calling, key) = (Arc::clone(&store), deployment.key_on(1));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let _ = calling.peek(request(&key, Algorithm::SlidingWindow)).await;
                sleep(Duration::from_millis(1)).await;
            }
        });
        Self {
            deployment,
            store,
            _calling: tasks,
        }
    }

    /// Ends the connections to the second node, again and again.
    async fn ends(&self) {
        for _ in 0..ENDS {
            self.end();
            sleep(PAUSE).await;
        }
    }

    fn end(&self) {
        let node = self.deployment.server_on(1);
        node.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    }

    fn asked(&self) -> u64 {
        self.deployment.scripts_run_on(0)
    }
}

fn request(key: &str, algorithm: Algorithm) -> Request<'_> {
    Request::new(key.as_bytes(), algorithm, &LIMITS)
}

#[tokio::test]
async fn what_another_node_has_refused_stays_known() {
    let site = Site::new().await;
    let key = site.deployment.key_on(0);
    let request = request(&key, Algorithm::SlidingWindow).with_cost(MAX);
    assert!(site.store.acquire(request).await.unwrap().allowed);
    let (start, asked) = (Instant::now(), site.asked());
    let mut calls = 0;
    while start.elapsed() < Duration::from_millis(700) {
        if start.elapsed() > PAUSE * calls {
            site.end();
            calls += 1;
        }
        assert!(!site.store.acquire(request).await.unwrap().allowed);
        sleep(Duration::from_millis(1)).await;
    }
    // It is known for a second.
    assert_eq!(site.asked() - asked, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_were_taken_ahead_of_another_node_are_spent_and_given_back() {
    const LEASE: Duration = Duration::from_millis(200);
    let site = Site::new().await;
    for &algorithm in Algorithm::ALL {
        let key = site.deployment.key_on(0);
        let request = request(&key, algorithm);
        let (start, mut admitted, mut ahead, mut ended) = (Instant::now(), 0, 0, 0);
        let is_enough = |ahead| ahead > 0 || start.elapsed() > PATIENCE;
        while start.elapsed() < PAUSE * ENDS || !is_enough(ahead) {
            if start.elapsed() > PAUSE * ended {
                site.end();
                ended += 1;
            }
            let verdict = site.store.acquire(request.with_prefetch(LEASE)).await;
            let verdict = verdict.unwrap();
            assert!(verdict.allowed, "{algorithm}");
            (admitted, ahead) = (admitted + 1, ahead + u64::from(verdict.cached));
            sleep(Duration::from_millis(2)).await;
        }
        site.store.settled().await.unwrap();
        let used = MAX - site.store.peek(request).await.unwrap().remaining;
        println!("{algorithm}: {used} units for {admitted} calls, {ahead} of them ahead");
        assert!(ahead > 0, "{algorithm}");
        assert_eq!(used, admitted, "{algorithm}");
    }
}

#[tokio::test]
async fn permits_of_another_node_are_not_renewed_early() {
    const PERMITS: u32 = 200;
    let site = Site::new().await;
    let mut held = Vec::new();
    for _ in 0..PERMITS {
        let permit = PermitRequest {
            lease: Duration::from_secs(60),
            ..PermitRequest::new(site.deployment.key_on(0).as_bytes(), 1)
        };
        let verdict = site
            .store
            .acquire_all(Some(permit.clone()), &[])
            .await
            .unwrap();
        assert!(verdict.is_acquired());
        held.push(permit);
    }
    let asked = site.asked();
    site.ends().await;
    assert_eq!(site.asked() - asked, 0);
    for permit in &held {
        site.store.release_permit(permit);
    }
}

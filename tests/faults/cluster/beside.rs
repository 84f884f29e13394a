//! [`Nodes`]: a cluster, and callers of one key on each node beside the load, to see who suffers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ratelimit_runtime::{
    Key, Limit, OnUnavailable, RateLimitError, RateLimiter, RateLimiterBuilder, Rule,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::harness::{TIMEOUT, World};
use crate::support::cluster::RedisCluster;
use crate::support::redis::RedisServer;
use crate::support::unique;

/// How many calls may be late because the machine is busy with something else.
const LATE: usize = 3;

pub(super) struct Nodes {
    pub(super) cluster: RedisCluster,
    /// Those that are moved, and how often one was.
    pub(super) slots: Vec<u16>,
    pub(super) moved: usize,
    /// Of the callers, so that tasks of the load are counted by themselves.
    runtime: Option<Runtime>,
    /// What the callers of each master's key were told.
    beside: [Arc<Mutex<Calls>>; 3],
}

#[derive(Debug, Default)]
struct Calls {
    served: usize,
    refused: Vec<String>,
}

impl World for Nodes {
    /// Replicas of each of three masters.
    type Setup = usize;

    async fn start(replicas: usize) -> Self {
        let cluster = RedisCluster::start_with(3, replicas, &super::EACH_FOR_ITSELF);
        let prefix = unique("beside");
        let builder = RateLimiter::builder()
            .redis(&cluster.url())
            .prefix(prefix.as_str())
            .timeout(TIMEOUT);
        let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let ready = limiter.clone();
        runtime
            .spawn(async move { ready.ready().await })
            .await
            .unwrap()
            .unwrap();
        let beside = [0, 1, 2].map(|_| Arc::default());
        for (node, calls) in beside.iter().enumerate() {
            let is_there = |number: &u64| {
                let stored = format!("{prefix}:rl1:sw-3600s:beside:<{number}>");
                cluster.owner_of_key(stored.as_bytes()) == node
            };
            let number = (0_u64..1_000).find(is_there).unwrap();
            runtime.spawn(call(limiter.clone(), number, Arc::clone(calls)));
        }
        Self {
            cluster,
            slots: Vec::new(),
            moved: 0,
            runtime: Some(runtime),
            beside,
        }
    }

    fn store(&self, builder: RateLimiterBuilder) -> RateLimiterBuilder {
        builder.redis(&self.cluster.url())
    }

    fn servers(&self) -> Vec<&RedisServer> {
        (0..self.cluster.len())
            .map(|at| self.cluster.node(at))
            .collect()
    }

    async fn end(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Nodes {
    /// Callers of these nodes were refused, and those of all others noticed nothing.
    pub(super) fn assert_sick(&self, nodes: &[usize]) {
        for (node, calls) in self.beside.iter().enumerate() {
            let calls = calls.lock().unwrap();
            if nodes.contains(&node) {
                assert!(calls.refused.len() > LATE, "{calls:?}");
            } else {
                assert!(calls.served > 50, "{calls:?}");
                assert!(
                    calls.refused.len() <= LATE + calls.served / 100,
                    "{calls:?}"
                );
            }
        }
    }
}

async fn call(limiter: RateLimiter, key: u64, calls: Arc<Mutex<Calls>>) {
    let rule = Rule::new("beside", Limit::per_hour(1_000_000));
    loop {
        let start = Instant::now();
        match limiter.acquire(&rule, &Key::of(&key)).await {
            Ok(_) => calls.lock().unwrap().served += 1,
            Err(RateLimitError::Unavailable(error)) => {
                calls
                    .lock()
                    .unwrap()
                    .refused
                    .push(format!("{error} ({:?})", start.elapsed()));
            }
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

//! [`Beside`]: callers of one key on each node, to see who suffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, OnUnavailable, RateLimitError, RateLimiter, Rule};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::harness::TIMEOUT;
use crate::support::cluster::RedisCluster;
use crate::support::unique;

/// How many calls may be late because the machine is busy with something else.
const LATE: usize = 3;

pub(super) struct Beside {
    callers: JoinSet<Calls>,
    stopped: Arc<AtomicBool>,
}

/// What the callers of one node's key were told.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) node: usize,
    pub(super) served: usize,
    pub(super) refused: Vec<String>,
}

impl Beside {
    /// Callers of a key on each of these nodes.
    pub(super) async fn on(cluster: &RedisCluster, nodes: &[usize]) -> Self {
        let prefix = unique("beside");
        let builder = RateLimiter::builder().redis(&cluster.url()).prefix(prefix.as_str()).timeout(TIMEOUT);
        let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
        limiter.ready().await.unwrap();
        let (mut callers, stopped) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
        for &node in nodes {
            let is_there = |number: &u64| {
                let stored = format!("{prefix}:rl1:sw-3600s:beside:<{number}>");
                cluster.owner_of_key(stored.as_bytes()) == node
            };
            let number = (0_u64..1_000).find(is_there).unwrap();
            callers.spawn(call(limiter.clone(), number, node, Arc::clone(&stopped)));
        }
        Self { callers, stopped }
    }

    pub(super) async fn end(self) -> Vec<Calls> {
        self.stopped.store(true, Ordering::Relaxed);
        let mut all = self.callers.join_all().await;
        all.sort_by_key(|calls| calls.node);
        all
    }
}

impl Calls {
    /// Nobody noticed anything.
    pub(super) fn assert_well(&self) {
        assert!(self.served > 50, "{self:?}");
        assert!(self.refused.len() <= LATE + self.served / 100, "{self:?}");
    }

    pub(super) fn assert_sick(&self) {
        assert!(self.refused.len() > LATE, "{self:?}");
    }
}

/// Callers of the first node were refused, and those of all others noticed nothing.
pub(super) fn assert_first_alone_is_sick(nodes: &[Calls]) {
    let [sick, well @ ..] = nodes else { panic!("there are nodes") };
    sick.assert_sick();
    well.iter().for_each(Calls::assert_well);
}

async fn call(limiter: RateLimiter, key: u64, node: usize, stopped: Arc<AtomicBool>) -> Calls {
    let rule = Rule::new("beside", Limit::per_hour(1_000_000));
    let mut calls = Calls { node, ..Calls::default() };
    while !stopped.load(Ordering::Relaxed) {
        let start = Instant::now();
        match limiter.acquire(&rule, &Key::of(&key)).await {
            Ok(_) => calls.served += 1,
            Err(RateLimitError::Unavailable(error)) => calls.refused.push(format!("{error} ({:?})", start.elapsed())),
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
    calls
}

//! What becomes of calls that end beside a dead master.

use std::future::{Future as _, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use ratelimit_runtime::{Limit, RateLimitError, RateLimiter, Rule, key, rate_limit};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{EACH_FOR_ITSELF, nothing_is_left_on_any};
use crate::harness::Row;
use crate::support::cluster::RedisCluster;
use crate::support::until;

const USERS: u64 = 12;

#[rate_limit(
    key = "<user>", limiter = limiter, window = "1h", max = 5, count = "err", name = "beside"
)]
async fn log_in(
    limiter: &RateLimiter,
    user: u64,
    mut over: watch::Receiver<bool>,
) -> Result<(), RateLimitError> {
    over.wait_for(|over| *over).await.unwrap();
    Ok(())
}

/// They end on a runtime that has no connections yet, so it has to be found out there who serves.
/// Each is settled once the node of its slot does, and no other is waited for.
pub(crate) async fn settled_beside_a_dead_master() -> Row {
    let mut cluster = RedisCluster::start_with(3, 0, &EACH_FOR_ITSELF);
    let limiter = RateLimiter::builder()
        .redis(&cluster.url())
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    let (end, over) = watch::channel(false);
    let rule = Rule::new("beside", Limit::per_hour(5));
    let left = async |user: u64| {
        limiter
            .peek(&rule, &key!("<user>"))
            .await
            .unwrap()
            .remaining()
    };
    let mut calls = Vec::new();
    for user in 0..USERS {
        let (limiter, over) = (limiter.clone(), over.clone());
        let mut call = Box::pin(async move { log_in(&limiter, user, over).await });
        while left(user).await == 5 {
            assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
            sleep(Duration::from_millis(2)).await;
        }
        calls.push(call);
    }
    let on = |node: usize| {
        let keys = cluster.node(node).cli(&["KEYS", "*"]);
        (0..USERS)
            .filter(|user| keys.lines().any(|key| key.ends_with(&format!("<{user}>"))))
            .collect::<Vec<u64>>()
    };
    let (well, sick) = ([on(0), on(1)].concat(), on(2));
    assert_eq!(well.len() + sick.len(), calls.len());
    cluster.kill(2);
    end.send(true).unwrap();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    for call in calls {
        runtime.spawn(call);
    }
    let start = Instant::now();
    for user in &well {
        until(
            "a success counts no more",
            Duration::from_secs(10),
            async || left(*user).await == 5,
        )
        .await;
    }
    let took = start.elapsed();
    runtime.shutdown_background();
    drop(limiter);
    nothing_is_left_on_any(&cluster);
    Row::new("cluster: calls with `count` that end while another master is dead")
        .calls(well.len())
        .seen("settled, all of them")
        .recovery(format!("{} ms", took.as_millis()))
}

//! Replies that come late, and floods of callers of whom most give up: on a node of a cluster, and
//! on a master behind Sentinel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratelimit_runtime::{Key, Limit, RateLimiter, Rule, Source};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::ALONE;
use crate::support::deployment::Deployment;
use crate::support::random::{Random, seed};
use crate::support::{source, unique, until};

/// The timeout of a limiter.
const TIMEOUT: Duration = Duration::from_millis(100);
/// How much longer a call may take on a busy machine.
const SLACK: Duration = Duration::from_millis(150);

/// Shorter than what sentinels and nodes take for a death.
const FROZEN: Duration = Duration::from_millis(300);
/// Calls on the other node that may be late because the machine is busy with something else.
const LATE: usize = 3;

static RULE: Rule = Rule::new("late", Limit::per_hour(100_000));

/// A limiter, whose timeout is [`TIMEOUT`], and its keys.
struct Site {
    limiter: RateLimiter,
    prefix: String,
}

impl Site {
    async fn on(deployment: &Deployment) -> Self {
        let prefix = unique("late");
        let builder = RateLimiter::builder().prefix(prefix.as_str());
        let builder = builder.redis(&deployment.url()).timeout(TIMEOUT);
        let limiter = builder.build().unwrap();
        limiter.ready().await.unwrap();
        Self { limiter, prefix }
    }

    /// So many keys of a master.
    fn keys(&self, deployment: &Deployment, master: usize, count: usize) -> Vec<Key> {
        let on = |number: &u64| deployment.has(master, &self.prefix, "late", *number);
        (0..)
            .filter(on)
            .take(count)
            .map(|number| Key::of(&number))
            .collect()
    }

    /// Charges a key, and says by whom that was decided and how long it took.
    async fn call(&self, key: &Key) -> (Option<Source>, Duration) {
        let start = Instant::now();
        let called = self.limiter.acquire(&RULE, key).await;
        (source(&called), start.elapsed())
    }

    async fn used(&self, keys: &[Key]) -> u64 {
        let mut used = 0;
        for key in keys {
            let peeked = self.limiter.peek(&RULE, key).await.unwrap();
            assert_eq!(peeked.source(), Source::Store);
            used += peeked.limit() - peeked.remaining();
        }
        used
    }

    /// Calls until the store decides; gives how many calls that took.
    async fn recovered(&self, key: &Key) -> u64 {
        let mut calls = 0;
        let by_store = async || {
            calls += 1;
            self.call(key).await.0 == Some(Source::Store)
        };
        let took = until("the store decides", Duration::from_secs(2), by_store).await;
        println!("decided by the store again after {took:?}");
        calls
    }
}

/// Calls on the keys of another node, until it is told to stop. The store decides them all.
async fn go_on(site: Arc<Site>, keys: Vec<Key>, is_over: Arc<AtomicBool>) {
    let (mut served, mut late) = (0, Vec::new());
    for key in keys.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        match site.call(key).await {
            (Some(Source::Store), _) => served += 1,
            other => late.push(other),
        }
        sleep(Duration::from_millis(2)).await;
    }
    println!("another node: {served} served, {late:?}");
    assert!(served > 5, "{served}");
    assert!(late.len() <= LATE, "of {served}: {late:?}");
}

/// Freezes the first server while these calls are made, and lets it go on once they have ended.
/// Gives how many of the keys' units are used in the end, and how many calls there were at most.
async fn frozen<T: Send + 'static>(
    deployment: &Deployment,
    keys: usize,
    calls: impl FnOnce(Arc<Site>, Vec<Key>) -> JoinSet<T>,
) -> (Vec<T>, u64, u64) {
    let site = Arc::new(Site::on(deployment).await);
    let sick = site.keys(deployment, 0, keys);
    for key in &sick {
        assert_eq!(site.call(key).await.0, Some(Source::Store));
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let others = matches!(deployment, Deployment::Cluster(_)).then(|| {
        let well = site.keys(deployment, 1, 8);
        tokio::spawn(go_on(Arc::clone(&site), well, Arc::clone(&is_over)))
    });
    sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    deployment.server().freeze();
    let calls = calls(Arc::clone(&site), sick.clone());
    let made = calls.len() as u64;
    let outcomes = calls.join_all().await;
    sleep(FROZEN.saturating_sub(start.elapsed())).await;
    deployment.server().thaw();
    let made = made + keys as u64 + site.recovered(&sick[0]).await;
    is_over.store(true, Ordering::Relaxed);
    if let Some(others) = others {
        others.await.unwrap();
    }
    (outcomes, site.used(&sick).await, made)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_whose_reply_is_late_are_answered_in_time_and_charged_at_most_once() {
    const CALLS: usize = 64;
    let _alone = ALONE.lock().await;
    for deployment in [Deployment::sentinel(), Deployment::cluster()] {
        let (outcomes, used, calls) = frozen(&deployment, 8, |site, keys| {
            let mut calls = JoinSet::new();
            for at in 0..CALLS {
                let (site, key) = (Arc::clone(&site), keys[at % keys.len()].clone());
                calls.spawn(async move { site.call(&key).await });
            }
            calls
        })
        .await;
        for (source, took) in outcomes {
            assert_eq!(source, Some(Source::Fallback), "{deployment}: {took:?}");
            assert!(took < TIMEOUT + SLACK, "{deployment}: {took:?}");
        }
        println!("{deployment}: {used} units for {calls} calls");
        assert!(used <= calls, "{deployment}: {used} units, {calls} calls");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_callers_that_give_up_leaves_other_nodes_alone_and_charges_nothing_twice() {
    const CALLERS: u64 = 4_000;
    let _alone = ALONE.lock().await;
    let mut random = Random::new(seed());
    for deployment in [Deployment::sentinel(), Deployment::cluster()] {
        let (outcomes, used, calls) = frozen(&deployment, 40, |site, keys| {
            let mut calls = JoinSet::new();
            for caller in 0..CALLERS {
                let (site, key) = (Arc::clone(&site), random.of(&[0, 1, 2, 3]));
                let key = keys[key * 10 + usize::try_from(caller % 10).unwrap()].clone();
                // One in twenty stays to the end.
                let patience = match caller % 20 {
                    0 => Duration::from_secs(10),
                    _ => Duration::from_micros(random.below(60_000)),
                };
                calls.spawn(async move { timeout(patience, site.call(&key)).await.ok() });
            }
            calls
        })
        .await;
        let answered: Vec<_> = outcomes.into_iter().flatten().collect();
        let slowest = answered.iter().map(|(_, took)| *took).max().unwrap();
        println!(
            "{deployment}: {} answered, the slowest after {slowest:?}; {used} units for {calls} \
             calls",
            answered.len()
        );
        assert!(answered.len() as u64 >= CALLERS / 20);
        for (source, took) in answered {
            assert_eq!(source, Some(Source::Fallback), "{deployment}: {took:?}");
        }
        // A machine of two busy processors takes its time with four thousand tasks.
        assert!(slowest < TIMEOUT + 4 * SLACK, "{deployment}: {slowest:?}");
        assert!(used <= calls, "{deployment}: {used} units, {calls} calls");
    }
}

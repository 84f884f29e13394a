//! Stacked rules whose keys are on several nodes: asked one after the other, and given back if one
//! refuses, fails, or the caller gives up. Whatever dies in between, no limit is passed.

use std::sync::Arc;

use ratelimit_runtime::{
    Key, OnUnavailable, RateLimitError, RateLimiter, RedisMode, Rule, rate_limit,
};

use super::*;
use crate::support::until;

const MAX: u64 = 5;

/// Two rules on keys of two nodes.
struct Pair {
    limiter: RateLimiter,
    /// On node 0, asked first.
    first: u64,
    /// On node 1.
    second: u64,
}

#[rate_limit(
    name = "first", key = "<pair.first>", window = "1h", max = MAX, limiter = pair.limiter
)]
#[rate_limit(
    name = "second", key = "<pair.second>", window = "1h", max = MAX, limiter = pair.limiter
)]
async fn both(pair: &Pair) -> Result<(), RateLimitError> {
    Ok(())
}

#[rate_limit(
    name = "second", key = "<pair.second>", window = "1h", max = MAX, limiter = pair.limiter
)]
#[rate_limit(
    name = "first", key = "<pair.first>", window = "1h", max = MAX, limiter = pair.limiter
)]
async fn in_opposite_order(pair: &Pair) -> Result<(), RateLimitError> {
    Ok(())
}

impl Pair {
    async fn on(cluster: &RedisCluster, timeout: Duration, scripts: bool) -> Self {
        let prefix = unique("pair");
        let store = RedisStore::new(&cluster.url())
            .unwrap()
            .deny_cache(false)
            .mode(if scripts {
                RedisMode::Scripts
            } else {
                RedisMode::Transactions
            });
        let builder = RateLimiter::builder()
            .prefix(prefix.as_str())
            .store(store)
            .timeout(timeout);
        let limiter = builder.on_unavailable(OnUnavailable::Deny).build().unwrap();
        limiter.ready().await.unwrap();
        let on = |node: usize, rule: &str| {
            let form = if scripts { "" } else { "%log" };
            let key = |number: &u64| format!("{prefix}:rl1:sw-3600s:{rule}:<{number}>{form}");
            (0_u64..1_000_000)
                .find(|number| cluster.owner_of_key(key(number).as_bytes()) == node)
                .unwrap()
        };
        Self {
            first: on(0, "first"),
            second: on(1, "second"),
            limiter,
        }
    }

    async fn left(&self) -> [u64; 2] {
        let left = async |name: &'static str, key: u64| {
            let rule = Rule::new(name, Limit::per_hour(MAX));
            self.limiter
                .peek(&rule, &Key::of(&key))
                .await
                .unwrap()
                .remaining()
        };
        [
            left("first", self.first).await,
            left("second", self.second).await,
        ]
    }

    /// Waits until so many are left.
    async fn becomes(&self, left: [u64; 2]) {
        until(&format!("{left:?} are left"), PATIENCE, async || {
            self.left().await == left
        })
        .await;
    }
}

#[tokio::test]
async fn keys_of_two_nodes_are_charged_both_or_not_at_all() {
    let cluster = RedisCluster::start(2, 0);
    for scripts in [true, false] {
        let pair = Pair::on(&cluster, PATIENCE, scripts).await;
        both(&pair).await.unwrap();
        assert_eq!(pair.left().await, [MAX - 1; 2]);
        // The second one alone, until it is used up.
        let rule = Rule::new("second", Limit::per_hour(MAX));
        for _ in 1..MAX {
            let _ = pair
                .limiter
                .acquire(&rule, &Key::of(&pair.second))
                .await
                .unwrap();
        }
        for _ in 0..3 {
            let refused = both(&pair).await.unwrap_err();
            assert_eq!(refused.decision().unwrap().rule(), "second");
        }
        pair.becomes([MAX - 1, 0]).await;
    }
}

#[tokio::test]
async fn stacks_in_opposite_order_admit_no_more_than_their_limit_and_no_less() {
    let cluster = RedisCluster::start(2, 0);
    let pair = Arc::new(Pair::on(&cluster, PATIENCE, true).await);
    let mut running = tokio::task::JoinSet::new();
    for caller in 0..64 {
        let pair = Arc::clone(&pair);
        running.spawn(async move {
            if caller % 2 == 0 {
                both(&pair).await
            } else {
                in_opposite_order(&pair).await
            }
        });
    }
    let admitted = running
        .join_all()
        .await
        .iter()
        .filter(|outcome| outcome.is_ok())
        .count();
    assert_eq!(admitted, usize::try_from(MAX).unwrap());
    pair.becomes([0, 0]).await;
}

/// Callers who give up at every point there is, one after the other.
#[tokio::test]
async fn a_stack_whose_caller_gives_up_is_released() {
    let cluster = RedisCluster::start(2, 0);
    for scripts in [true, false] {
        let pair = Pair::on(&cluster, PATIENCE, scripts).await;
        // Between the two: the first is decided, and no node answers for the second.
        cluster.freeze(1);
        assert!(
            timeout(Duration::from_millis(300), both(&pair))
                .await
                .is_err(),
            "it waits for the second"
        );
        cluster.thaw(1);
        // What was on its way to the second may have run: it counts.
        until("the first is given back", PATIENCE, async || {
            pair.left().await[0] == MAX
        })
        .await;
        assert!(pair.left().await[1] >= MAX - 1);
    }
    // At random points, under load: never more than MAX, whatever was given back.
    let pair = Arc::new(Pair::on(&cluster, PATIENCE, true).await);
    let mut running = tokio::task::JoinSet::new();
    for caller in 0..40_u64 {
        let pair = Arc::clone(&pair);
        running
            .spawn(async move { timeout(Duration::from_micros(caller * 97), both(&pair)).await });
    }
    let admitted = running
        .join_all()
        .await
        .into_iter()
        .filter(|done| matches!(done, Ok(Ok(()))))
        .count();
    assert!(admitted <= usize::try_from(MAX).unwrap(), "{admitted}");
}

/// The second node dies while it is looked at: the call fails, and the first was charged at no
/// time.
#[tokio::test]
async fn a_node_that_dies_during_the_peek_leaves_nothing_charged() {
    let mut cluster = RedisCluster::start_with(2, 0, &["--cluster-require-full-coverage", "no"]);
    let pair = Arc::new(Pair::on(&cluster, PATIENCE, true).await);
    cluster.freeze(1);
    let call = {
        let pair = Arc::clone(&pair);
        tokio::spawn(async move { both(&pair).await })
    };
    let first = Rule::new("first", Limit::per_hour(MAX));
    let left = async || {
        let peeked = pair.limiter.peek(&first, &Key::of(&pair.first)).await;
        peeked.unwrap().remaining()
    };
    for _ in 0..100 {
        assert_eq!(left().await, MAX);
    }
    assert!(!call.is_finished());
    cluster.kill(1);
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error:?}");
    assert_eq!(left().await, MAX);
}

//! Lists of keys: those of all masters, also where slots have moved and masters are replaced.

use std::collections::BTreeSet;

use ratelimit_runtime::{Key, RateLimitError, RateLimiter, RedisStore, Rule};

use super::*;
use crate::support::listing::{charge, rest};
use crate::support::{eventually, strict};

static RULE: Rule = Rule::new("login", Limit::per_hour(5));

fn limiter(cluster: &RedisCluster) -> RateLimiter {
    strict().redis(&cluster.url()).build().unwrap()
}

/// The slot of a key of the rule.
fn slot(cluster: &RedisCluster, key: &Key) -> u16 {
    cluster.slot(&[b"rl1:sw-3600s:login:", key.as_bytes()].concat())
}

#[tokio::test]
async fn keys_of_all_masters_are_listed_wherever_slots_have_moved() {
    let mut cluster = RedisCluster::start(3, 0);
    let before = limiter(&cluster);
    let expected = charge(&before, &RULE, 300).await;
    assert_eq!(rest(&mut before.keys(&RULE)).await, expected);
    // To masters that the limiter knows, and to one that it has never heard of.
    let newcomer = cluster.add();
    for (turn, key) in expected.iter().take(6).enumerate() {
        let slot = slot(&cluster, key);
        let to = if turn % 2 == 0 {
            newcomer
        } else {
            (cluster.owner(slot) + 1) % 3
        };
        if cluster.owner(slot) != to {
            cluster.move_slot(slot, to);
        }
    }
    assert_eq!(rest(&mut before.keys(&RULE)).await, expected);
    let [all, single] = [cluster.url(), cluster.node(0).url()].map(|url| RedisStore::new(&url));
    let (limits, single) = ([Limit::per_hour(5)], single.unwrap());
    let request = Request::new(b"rl1:", Algorithm::SlidingWindow, &limits);
    let first = all.unwrap().keys(request, None).await.unwrap();
    let error = single.keys(request, first.next).await.unwrap_err();
    assert!(
        error.to_string().contains("begin with the first page"),
        "{error}"
    );
    // A node would list its own keys alone.
    let error = single.keys(request, None).await.unwrap_err();
    assert!(
        error.to_string().contains("write redis+cluster://"),
        "{error}"
    );
}

#[tokio::test]
async fn a_replica_that_takes_over_is_listed() {
    let mut cluster = RedisCluster::start(3, 1);
    // A hash of rules would be one key more.
    let store = cluster.store().write_rules(false);
    let limiter = strict().store(store).build().unwrap();
    let expected = charge(&limiter, &RULE, 150).await;
    let keys_on = |node: usize| cluster.node(node).number(&["DBSIZE"]);
    assert!(
        eventually(|| (0..6).map(keys_on).sum::<i64>() == 300),
        "the replicas have all keys"
    );
    for lost in [0, 1] {
        let slot = cluster.slots_of(lost)[0];
        let mut keys = limiter.keys(&RULE);
        let mut listed: BTreeSet<Key> = keys
            .next_page()
            .await
            .unwrap()
            .unwrap()
            .into_iter()
            .collect();
        cluster.kill(lost);
        listed.extend(rest(&mut keys).await);
        assert_eq!(listed, expected);
        assert!(cluster.wait_for_fail_over(slot, lost) >= 3);
    }
}

/// It has no slots any more, though calls that were sent to it still wait.
#[tokio::test]
async fn a_master_that_was_replaced_is_not_asked() {
    let cluster = RedisCluster::start(3, 1);
    let limiter = strict()
        .timeout(Duration::from_secs(60))
        .redis(&cluster.url())
        .build()
        .unwrap();
    let expected = charge(&limiter, &RULE, 30).await;
    let slot = cluster.slots_of(0)[0];
    let key = expected
        .iter()
        .find(|key| cluster.owner(self::slot(&cluster, key)) == 0)
        .unwrap();
    let replicated = || {
        (0..6)
            .map(|node| cluster.node(node).number(&["DBSIZE"]))
            .sum::<i64>()
    };
    assert!(
        eventually(|| replicated() >= 60),
        "the replicas have all keys"
    );
    cluster.freeze(0);
    let (waits, its_key) = (limiter.clone(), key.clone());
    let waiting = tokio::spawn(async move { waits.acquire(&RULE, &its_key).await });
    sleep(Duration::from_millis(50)).await;
    assert!(cluster.wait_for_fail_over(slot, 0) >= 3);
    assert!(!waiting.is_finished());
    let (mut keys, mut listed) = (limiter.keys(&RULE), BTreeSet::new());
    while let Some(page) = keys.next_page().await.unwrap() {
        listed.extend(page);
    }
    assert_eq!(listed, expected);
    waiting.abort();
    cluster.thaw(0);
}

#[tokio::test]
async fn a_list_that_cannot_be_whole_is_an_error() {
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let limiter = strict()
        .timeout(Duration::from_millis(500))
        .redis(&cluster.url())
        .build()
        .unwrap();
    limiter.ready().await.unwrap();
    cluster.freeze(1);
    let mut keys = limiter.keys(&RULE);
    let asked = Instant::now();
    let error = loop {
        match keys.next_page().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a third of the keys was not looked at"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RateLimitError::Unavailable(_)), "{error}");
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    cluster.thaw(1);
}

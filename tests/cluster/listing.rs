//! Lists of keys: those of all masters, also where slots have moved and masters are replaced.

use std::collections::BTreeSet;

use ratelimit_runtime::{Key, RateLimitError, RateLimiter, Rule};

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

/// Each page by a limiter of its own, that knows nothing but the cursor.
#[tokio::test]
async fn keys_of_all_masters_are_listed_wherever_slots_have_moved() {
    let mut cluster = RedisCluster::start(3, 0);
    let expected = charge(&limiter(&cluster), &RULE, 300).await;
    let (mut listed, mut pages, mut cursor) = (BTreeSet::new(), 0, None::<Vec<u8>>);
    loop {
        let keys = limiter(&cluster).keys(&RULE);
        let mut keys = if let Some(bytes) = cursor.take() {
            keys.resume(bytes)
        } else {
            keys
        };
        listed.extend(keys.next_page().await.unwrap().unwrap());
        pages += 1;
        let Some(next) = keys.cursor() else { break };
        cursor = Some(next.to_vec());
        assert!(pages < 50, "it comes to an end");
    }
    assert_eq!(listed, expected);
    let before = limiter(&cluster);
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
    let single = strict().redis(&cluster.node(0).url()).build().unwrap();
    let mut keys = limiter(&cluster).keys(&RULE);
    keys.next_page().await.unwrap();
    let error = single
        .keys(&RULE)
        .resume(keys.cursor().unwrap())
        .next_page()
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("begin with the first page"),
        "{error}"
    );
}

#[tokio::test]
async fn a_replica_that_takes_over_is_listed() {
    let mut cluster = RedisCluster::start(3, 1);
    let limiter = limiter(&cluster);
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

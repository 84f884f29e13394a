//! Which slots real keys get: all of them alike, and none that a value chooses.

use std::collections::HashSet;
use std::time::Duration;

use ratelimit_runtime::{Key, Limit, RateLimitError, RateLimiter, Rule, key, rate_limit};

use crate::support::cluster::{RedisCluster, shared};
use crate::support::{strict, unique, until};
use crate::{PATIENCE, acquire};

/// Bit by bit, as the specification of Redis Cluster writes it; hash tags included.
pub(crate) fn of(key: &[u8]) -> u16 {
    let start = key
        .iter()
        .position(|byte| *byte == b'{')
        .map_or(0, |at| at + 1);
    let tag = match key[start..].iter().position(|byte| *byte == b'}') {
        Some(end) if start > 0 && end > 0 => &key[start..start + end],
        _ => key,
    };
    let mut crc = 0_u16;
    for byte in tag {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            };
        }
    }
    crc % 16_384
}

#[test]
fn the_cluster_counts_slots_as_this_test_does() {
    for key in [
        "",
        "foo",
        "{user1000}.following",
        "foo{}{bar}",
        "foo{{bar}}zap",
        "foo{bar}{zap}",
        "}foo{",
        "{",
        "}",
    ] {
        assert_eq!(of(key.as_bytes()), shared().slot(key.as_bytes()), "{key}");
    }
}

/// Also after the slots were asked for again: masters that stay keep their connections.
#[tokio::test]
async fn a_call_goes_to_the_node_that_has_its_slot_on_the_connection_to_it() {
    let cluster = RedisCluster::start(3, 0);
    let store = cluster.store().client_name("slots");
    let all = async || {
        for key in [
            "123456789",
            "foo{}{bar}",
            "foo{{bar}}zap",
            "foo{bar}{zap}",
            "}foo{",
            "{",
            "}",
            "{foo",
            "foo}",
        ] {
            for tag in ["", "{a}", "{b}", "{c}"] {
                assert!(
                    acquire(&store, &format!("{key}{tag}"), Limit::per_hour(9))
                        .await
                        .unwrap()
                        .allowed
                );
            }
        }
    };
    let info = |section| {
        [0, 1, 2]
            .map(|node| cluster.node(node).cli(&["INFO", section]))
            .concat()
    };
    all().await;
    // Each connection asks for its rights by one key, whose slot two of the nodes do not have.
    let errors = info("errorstats");
    let moved = errors.matches("errorstat_MOVED:count=1\r").count();
    assert_eq!(moved, errors.matches("MOVED").count(), "{errors}");
    assert_eq!(moved, 2, "{errors}");
    let connections = || {
        let clients = [0, 1, 2]
            .map(|node| cluster.node(node).cli(&["CLIENT", "LIST"]))
            .concat();
        let ours = clients
            .lines()
            .filter(|client| client.contains("name=slots"))
            .map(|client| {
                client
                    .split(' ')
                    .find(|field| field.starts_with("id="))
                    .unwrap()
                    .to_owned()
            });
        ours.collect::<Vec<_>>()
    };
    until("each node has one connection", PATIENCE, async || {
        connections().len() == 3
    })
    .await;
    let before = connections();
    cluster.move_slot(of(b"123456789"), 0);
    cluster.move_slot(of(b"123456789"), 1);
    let asked = || {
        info("commandstats")
            .lines()
            .filter(|line| line.starts_with("cmdstat_cluster"))
            .collect::<String>()
    };
    let asked_before = asked();
    all().await;
    assert_ne!(info("errorstats"), errors);
    until("the slots are asked for", PATIENCE, async || {
        asked() != asked_before
    })
    .await;
    all().await;
    // Those to seeds are closed once a node has answered.
    until(
        "the connections are those of before",
        PATIENCE,
        async || connections() == before,
    )
    .await;
}

/// All keys with this prefix, as they are stored.
fn stored(cluster: &RedisCluster, prefix: &str) -> Vec<String> {
    let on = |node: usize| cluster.node(node).cli(&["KEYS", &format!("{prefix}*")]);
    (0..cluster.len())
        .flat_map(|node| on(node).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[rate_limit(key = "<email>", window = "1h", max = 3, name = "spread")]
async fn send(email: &str) -> Result<(), RateLimitError> {
    let _ = email;
    Ok(())
}

/// 4,096 addresses in 64 equal parts of the slots: by chance, chi-square is 63 with a standard
/// deviation of 11. The checksum spreads numbered addresses better than chance.
#[tokio::test]
async fn keys_of_one_rule_spread_over_all_slots() {
    const PARTS: u16 = 64;
    const KEYS: u16 = 4_096;
    let cluster = shared();
    let prefix = unique("spread");
    let limiter = strict()
        .redis(&cluster.url())
        .prefix(prefix.as_str())
        .build()
        .unwrap();
    limiter
        .scope(async {
            for user in 0..KEYS {
                send(&format!("user{user}@example.com")).await.unwrap();
            }
        })
        .await;
    // The rules have a hash of their own.
    let keys = stored(cluster, &format!("{prefix}:rl1:sw-"));
    assert_eq!(keys.len(), usize::from(KEYS));
    let mut parts = [0_u32; PARTS as usize];
    for key in &keys {
        parts[usize::from(of(key.as_bytes()) / (16_384 / PARTS))] += 1;
    }
    let expected = f64::from(KEYS / PARTS);
    let chi_square: f64 = parts
        .iter()
        .map(|&count| (f64::from(count) - expected).powi(2) / expected)
        .sum();
    assert!(chi_square < 130.0, "{chi_square}: {parts:?}");
}

/// A client that chose the slot could put all of its load, or all of another's limits, on one
/// node.
#[tokio::test]
async fn no_value_chooses_its_slot() {
    let cluster = shared();
    let prefix = unique("hostile");
    let limiter = strict()
        .redis(&cluster.url())
        .prefix(prefix.as_str())
        .build()
        .unwrap();
    let rule = Rule::new("a{rule}", Limit::new(3, Duration::from_secs(3_600)));
    let long = format!("{{tag}}{}", "x".repeat(500));
    let values = [
        "{tag}",
        "}{tag}{",
        "{",
        "}",
        "{}",
        "a{tag}b",
        "{tag",
        "tag}",
        "\0{tag}",
        "<{tag}>",
        long.as_str(),
    ];
    for value in values {
        for number in 0..8 {
            let _ = limiter
                .acquire(&rule, &key!("<value>/<number>"))
                .await
                .unwrap();
            let _ = limiter
                .acquire(&rule, &Key::of(&(value, number)))
                .await
                .unwrap();
        }
    }
    let keys = stored(cluster, &prefix);
    assert_eq!(keys.len(), values.len() * 8 * 2);
    assert!(keys.iter().all(|key| !key.contains(['{', '}'])), "{keys:?}");
    let slots: HashSet<u16> = keys.iter().map(|key| of(key.as_bytes())).collect();
    // Two of 176 share one of 16,384 slots now and then.
    assert!(
        slots.len() > keys.len() - 10,
        "{} slots for {} keys",
        slots.len(),
        keys.len()
    );
    assert!(
        RateLimiter::builder()
            .redis(&cluster.url())
            .prefix("{shop}")
            .build()
            .is_err()
    );
    assert!(Key::from_rendered("{tag}").is_err());
}

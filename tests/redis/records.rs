//! What is admitted, and what stays on the server.

use std::time::{Duration, Instant};

use super::{MICROSECOND, MINUTE, PATIENCE, acquire, peek, store_with_fake_clock};
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, RedisMode, Store};

#[tokio::test]
async fn the_servers_clock_frees_a_unit_at_the_promised_microsecond() {
    let store = shared().store();
    let (key, limit) = (unique("promise"), Limit::new(1, Duration::from_millis(100)));
    let mut promises = 0;
    for _ in 0..6 {
        let asked = Instant::now();
        let refused = acquire(&store, &key, limit).await.unwrap();
        if refused.allowed {
            // The first call, or one after the machine stood still for a whole window.
            continue;
        }
        promises += 1;
        assert!(
            refused.retry_after_us > 0 && refused.retry_after_us <= 100_000,
            "{refused:?}"
        );
        let earliest = asked + refused.retry_after().unwrap();
        // Until the promised moment every answer is a refusal, whatever the key's expiry does.
        loop {
            let verdict = acquire(&store, &key, limit).await.unwrap();
            let received = Instant::now();
            if verdict.allowed {
                assert!(
                    received >= earliest,
                    "admitted {:?} early",
                    earliest - received
                );
                break;
            }
            assert!(received < earliest + PATIENCE, "never admitted");
        }
    }
    assert!(promises > 0);
}

#[tokio::test]
async fn the_log_outgrows_max_little_and_never_outlives_two_windows() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (key, max) = (unique("bounds"), 100);
    let limit = Limit::new(max, MINUTE);
    for call in 0..1_500_u64 {
        let verdict = acquire(&store, &key, limit).await.unwrap();
        if call % 7 == 0 {
            let _ = peek(&store, &key, limit).await.unwrap();
        }
        let card = server.number(&["ZCARD", &key]);
        // One admission in sixteen removes what has lapsed.
        assert!(
            card <= i64::try_from(4 * max).unwrap(),
            "{card} entries after call {call}, {verdict:?}"
        );
        let ttl = server.number(&["PTTL", &key]);
        // A second longer than two windows, by the caller's clock.
        assert!(
            (1..=121_001).contains(&ttl),
            "{ttl} ms left after call {call}"
        );
        // On average a little less than `max` calls come in a minute, at times in the same
        // microsecond.
        clock.advance(Duration::from_micros(
            call * 7_919_993 % 1_100_000 * (call % 3),
        ));
    }
}

/// 100,000 that are removed at once would hold the server for 17 ms.
#[tokio::test]
async fn expired_entries_are_removed_in_bounded_portions() {
    remove_in_portions(RedisMode::Scripts, "", false).await;
    remove_in_portions(RedisMode::Scripts, "", true).await;
    remove_in_portions(RedisMode::Transactions, "%log", false).await;
}

async fn remove_in_portions(mode: RedisMode, form: &str, reserves: bool) {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let store = store.mode(mode);
    let (key, limits) = (unique("portions"), [Limit::new(5_000, MINUTE)]);
    let stored = format!("{key}{form}");
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    for _ in 0..4 {
        assert!(
            store
                .acquire(request.with_cost(1_000))
                .await
                .unwrap()
                .allowed
        );
    }
    clock.advance(MINUTE / 2);
    assert!(store.acquire(request).await.unwrap().allowed);
    clock.advance(MINUTE / 2 + MICROSECOND * 5_000);
    // 4,000 of 4,001 have lapsed.
    let (mut card, mut removed) = (4_001, 0);
    let request = if reserves {
        request.reserving()
    } else {
        request
    };
    for call in 0..200_u64 {
        assert_eq!(
            store.acquire(request).await.unwrap().remaining,
            5_000 - 2 - call
        );
        let now = server.number(&["ZCARD", &stored]);
        assert!(card + 1 - now <= 1_016, "{} at once", card + 1 - now);
        removed += card + 1 - now;
        card = now;
        clock.advance(MICROSECOND);
    }
    assert!(removed > 0, "nothing is removed");
}

/// They make the next block longer.
#[tokio::test]
async fn a_key_lives_as_long_as_its_offences_are_remembered() {
    let (server, limits) = (shared(), [Limit::per_minute(1)]);
    let store = server.store();
    for &algorithm in Algorithm::ALL {
        let key = unique("offences");
        let request = Request::new(key.as_bytes(), algorithm, &limits);
        let request = request.with_growing_block(MINUTE, MINUTE * 60);
        for _ in 0..2 {
            let _ = store.acquire(request).await.unwrap();
        }
        let left = server.number(&["PTTL", &key]);
        assert!(left > 60 * 60_000, "{algorithm}: {left} ms");
    }
}

#[tokio::test]
async fn refusals_and_peeks_write_nothing() {
    let server = RedisServer::start();
    let store = server.store();
    let (key, limit) = (unique("quiet"), Limit::new(2, MINUTE));
    for _ in 0..2 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    let before = server.info("persistence", "rdb_changes_since_last_save");
    assert_ne!(before, "0");
    for _ in 0..10 {
        assert!(!acquire(&store, &key, limit).await.unwrap().allowed);
        assert!(!peek(&store, &key, limit).await.unwrap().allowed);
        assert!(
            peek(&store, &unique("nobody"), limit)
                .await
                .unwrap()
                .allowed
        );
    }
    assert_eq!(
        server.info("persistence", "rdb_changes_since_last_save"),
        before
    );
}

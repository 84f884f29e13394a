//! What is admitted, and what stays on the server.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{MICROSECOND, MINUTE, PATIENCE, acquire, peek, store_with_fake_clock};
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;
use ratelimit_runtime::store::Request;
use ratelimit_runtime::{Algorithm, Limit, LogLayout, RedisMode, RedisStore, Store};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_thousand_concurrent_calls_are_counted_exactly() {
    let server = shared();
    let store = Arc::new(RedisStore::new(&server.url()).unwrap().mode(RedisMode::ScriptsWith(LogLayout::Zset)));
    let (key, limit) = (unique("concurrent"), Limit::new(7_000, MINUTE));
    let mut calls = JoinSet::new();
    for _ in 0..20_000 {
        let (store, key) = (Arc::clone(&store), key.clone());
        calls.spawn(async move { acquire(&store, &key, limit).await.unwrap().allowed });
    }
    let admitted = calls.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(admitted, 7_000);
    assert_eq!(server.number(&["ZCARD", &key]), 7_000);
}

#[tokio::test]
async fn the_servers_clock_frees_a_slot_at_the_promised_microsecond() {
    let store = RedisStore::new(&shared().url()).unwrap();
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
        assert!(refused.retry_after_us > 0 && refused.retry_after_us <= 100_000, "{refused:?}");
        let earliest = asked + refused.retry_after().unwrap();
        // Until the promised moment every answer is a refusal, whatever the key's expiry does.
        loop {
            let verdict = acquire(&store, &key, limit).await.unwrap();
            let received = Instant::now();
            if verdict.allowed {
                assert!(received >= earliest, "admitted {:?} early", earliest - received);
                break;
            }
            assert!(received < earliest + PATIENCE, "never admitted");
        }
    }
    assert!(promises > 0);
}

#[tokio::test]
async fn the_log_never_outgrows_max_or_outlives_two_windows() {
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
        assert!(card <= i64::try_from(max).unwrap(), "{card} entries after call {call}, {verdict:?}");
        let ttl = server.number(&["PTTL", &key]);
        assert!((1..=120_000).contains(&ttl), "{ttl} ms left after call {call}");
        // On average a little less than `max` calls come in a minute, at times in the same
        // microsecond.
        clock.advance(Duration::from_micros(call * 7_919_993 % 1_100_000 * (call % 3)));
    }
}

#[tokio::test]
async fn a_log_whose_newest_entry_has_expired_starts_anew() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (key, limit) = (unique("anew"), Limit::new(300, MINUTE));
    for _ in 0..300 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    // More than 128 entries make a skip list, and Redis never turns one back.
    assert_eq!(server.cli(&["OBJECT", "ENCODING", &key]), "skiplist");
    clock.advance(MINUTE + MICROSECOND * 300);
    assert_eq!(peek(&store, &key, limit).await.unwrap().remaining, 300);
    assert_eq!(server.number(&["ZCARD", &key]), 300, "a peek writes nothing");
    assert_eq!(acquire(&store, &key, limit).await.unwrap().remaining, 299);
    assert_eq!(server.number(&["ZCARD", &key]), 1);
    assert_ne!(server.cli(&["OBJECT", "ENCODING", &key]), "skiplist");
}

#[tokio::test]
async fn expired_entries_go_in_bounded_portions() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (key, limit) = (unique("portions"), Limit::new(500, MINUTE));
    for _ in 0..499 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    clock.advance(MINUTE / 2);
    assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    clock.advance(MINUTE / 2 + MICROSECOND * 500);
    // 499 of 500 have expired.
    assert_eq!(acquire(&store, &key, limit).await.unwrap().remaining, 498);
    assert_eq!(server.number(&["ZCARD", &key]), 500 + 1 - 64);
}

#[tokio::test]
async fn members_are_unique_integers_and_scores_the_exact_time() {
    let server = shared();
    let (store, _clock) = store_with_fake_clock().await;
    let (key, limit) = (unique("members"), Limit::new(3, MINUTE));
    for _ in 0..3 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    let log = server.cli(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
    let start = 1_700_000_000_000_000_u64;
    let expected = (start..start + 3).map(|member| format!("{member}\n{start}")).collect::<Vec<_>>().join("\n");
    assert_eq!(log, expected);
}

#[tokio::test]
async fn a_heavy_call_takes_as_many_members() {
    let server = shared();
    let (store, _clock) = store_with_fake_clock().await;
    let (key, limits) = (unique("heavy"), [Limit::new(2_000, MINUTE)]);
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits).with_cost(1_000);
    assert_eq!(store.acquire(request).await.unwrap().remaining, 1_000);
    assert_eq!(store.acquire(request).await.unwrap().remaining, 0);
    assert!(!store.acquire(request).await.unwrap().allowed);
    assert_eq!(server.number(&["ZCARD", &key]), 2_000);
}

#[tokio::test]
async fn refusals_and_peeks_write_nothing() {
    let server = RedisServer::start();
    let store = RedisStore::new(&server.url()).unwrap();
    let (key, limit) = (unique("quiet"), Limit::new(2, MINUTE));
    for _ in 0..2 {
        assert!(acquire(&store, &key, limit).await.unwrap().allowed);
    }
    let before = server.info("persistence", "rdb_changes_since_last_save");
    assert_ne!(before, "0");
    for _ in 0..10 {
        assert!(!acquire(&store, &key, limit).await.unwrap().allowed);
        assert!(!peek(&store, &key, limit).await.unwrap().allowed);
        assert!(peek(&store, &unique("nobody"), limit).await.unwrap().allowed);
    }
    assert_eq!(server.info("persistence", "rdb_changes_since_last_save"), before);
}

#[tokio::test]
async fn a_clock_that_steps_back_never_lengthens_a_keys_life() {
    let server = shared();
    let (store, clock) = store_with_fake_clock().await;
    let (full, limit) = (unique("stepped-full"), Limit::new(2, MINUTE));
    let open = unique("stepped-open");
    for key in [&full, &full, &open] {
        assert!(acquire(&store, key, limit).await.unwrap().allowed);
    }
    clock.step_back(MINUTE * 10);
    for key in [&full, &open] {
        // A server whose clock is set back by ten minutes shows such a key with that much more to
        // live.
        assert_eq!(server.cli(&["PEXPIRE", key, "660000"]), "1");
        let verdict = peek(&store, key, limit).await.unwrap();
        let ttl = server.number(&["PTTL", key]);
        assert!((1..=60_000).contains(&ttl), "{ttl} ms left");
        assert!(verdict.retry_after_us <= 60_001_000, "{verdict:?}");
        assert!(verdict.reset_after_us <= 60_001_000, "{verdict:?}");
    }
    assert!(!acquire(&store, &full, limit).await.unwrap().allowed, "what was admitted still counts");
    assert!(acquire(&store, &open, limit).await.unwrap().allowed);
    assert!(!acquire(&store, &open, limit).await.unwrap().allowed);
}

#[tokio::test]
async fn reset_says_whether_there_was_anything() {
    let store = RedisStore::new(&shared().url()).unwrap();
    let (key, limits) = (unique("reset"), [Limit::new(1, MINUTE)]);
    let request = Request::new(key.as_bytes(), Algorithm::SlidingWindow, &limits);
    assert!(!store.reset(request).await.unwrap());
    assert!(store.acquire(request).await.unwrap().allowed);
    assert!(!store.acquire(request).await.unwrap().allowed);
    assert!(store.reset(request).await.unwrap());
    assert!(store.acquire(request).await.unwrap().allowed);
}

/// A key that looks as if it admitted, and then cannot be charged: a reservation needs a ring, and
/// a sorted set of so many members is never made one.
#[tokio::test]
async fn a_group_of_which_one_key_cannot_be_charged_charges_none() {
    let server = shared();
    let store = RedisStore::new(&server.url()).unwrap();
    let limits = [Limit::new(1_000, MINUTE)];
    let large = unique("large");
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let first = u64::try_from(since.as_micros()).unwrap() - 1_000;
    let members = (first..first + 300).flat_map(|time| [time.to_string(), time.to_string()]);
    let add: Vec<String> = ["ZADD".to_owned(), large.clone()].into_iter().chain(members).collect();
    assert_eq!(server.cli(&add), "300");
    for &algorithm in Algorithm::ALL {
        let (one, two) = (unique("one"), unique("two"));
        let broken = Request::new(large.as_bytes(), Algorithm::SlidingWindow, &limits).reserving();
        let others = [&one, &two].map(|key| Request::new(key.as_bytes(), algorithm, &limits).reserving());
        for group in [[broken, others[0], others[1]], [others[0], broken, others[1]], [others[0], others[1], broken]] {
            let error = store.acquire_all(&group).await.unwrap_err();
            assert!(error.message().contains("sorted set"), "{algorithm:?}: {error}");
            for other in others {
                assert_eq!(store.peek(other).await.unwrap().remaining, 1_000, "{algorithm:?}");
            }
        }
    }
}

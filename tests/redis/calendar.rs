//! Calendar quotas: whose clock and whose zone data decide, in one call and in shared ones.

#![allow(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::__private::{PermitId, PlaceRequest};
use ratelimit_runtime::store::{Feature, Request, StoreErrorKind, Verdict};
use ratelimit_runtime::{Algorithm, CalendarUnit, Limit, RedisMode, RedisStore, Store};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{MINUTE, PATIENCE, number_of, store_with_fake_clock};
use crate::support::clock::ServerClock;
use crate::support::cluster;
use crate::support::redis::{RedisServer, shared};
use crate::support::unique;

const HOUR: Duration = Duration::from_secs(3_600);

fn by<'a>(key: &'a str, limits: &'a [Limit]) -> Request<'a> {
    Request::new(key.as_bytes(), Algorithm::FixedWindow, limits)
}

fn hourly(max: u64) -> Limit {
    Limit::calendar(max, CalendarUnit::Hour)
}

/// The server's clock, in microseconds.
fn now_us(server: &RedisServer) -> i64 {
    let time = server.cli(&["TIME"]);
    let mut parts = time.lines().map(number_of);
    parts.next().unwrap() * 1_000_000 + parts.next().unwrap()
}

async fn on(server: &RedisServer) -> RedisStore {
    let store = RedisStore::new(&server.url()).unwrap().deny_cache(false);
    store.ready().await.unwrap();
    store
}

/// A clock of the server by which the next hour begins after this time.
fn before_the_hour(clock: &ServerClock, server: &RedisServer, left: Duration) -> i64 {
    const HOUR_MS: i64 = 3_600_000;
    clock.set_ms(0);
    let into = now_us(server) / 1_000 % HOUR_MS;
    let offset = HOUR_MS - into - i64::try_from(left.as_millis()).unwrap();
    clock.set_ms(offset);
    offset
}

/// The process has made its instants by its own clock, and the server decides by its own: up to a
/// period between them is nothing, and more is told. Behind, two of the longest periods are more:
/// of an hour that is four hours, as clock changes have it.
#[tokio::test]
async fn a_server_whose_clock_is_off() {
    let Ok(clock) = ServerClock::new() else { return };
    let server = clock.server(&[]);
    let store = on(&server).await;
    for (minutes, is_told) in [(0, false), (50, false), (-50, false), (125, true), (-9 * 60, true)] {
        clock.set_ms(minutes * 60_000);
        let (key, limits) = (unique("off"), [hourly(2)]);
        let answer = store.acquire(by(&key, &limits)).await;
        if is_told {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{minutes}");
            assert!(error.message().contains("clocks of this process and of the Redis server differ"), "{error}");
            assert_eq!(server.cli(&["EXISTS", &key]), "0");
        } else {
            let verdict = answer.unwrap();
            assert!(verdict.allowed, "{minutes}: {verdict:?}");
            // It ends with the hour of the process, or a later one of the server's clock.
            let now = now_us(&server);
            let later = now.max(now - minutes * 60_000_000);
            let left = later - later.rem_euclid(3_600_000_000) + 3_600_000_000 - now;
            let reset = i64::try_from(verdict.reset_after_us).unwrap();
            assert!((reset - left).abs() < 2_000_000, "{minutes}: {reset}, {left}");
        }
    }
}

/// Across the end of an hour and back: each hour admits once, and back in the old one the new one
/// holds.
#[tokio::test]
async fn a_server_that_is_set_back_and_forth_across_the_end_of_a_period() {
    let Ok(clock) = ServerClock::new() else { return };
    let server = clock.server(&[]);
    let store = on(&server).await;
    let offset = before_the_hour(&clock, &server, Duration::from_secs(60));
    let (key, limits) = (unique("across"), [hourly(1)]);
    let acquire = async || store.acquire(by(&key, &limits)).await.unwrap().allowed;
    assert!(acquire().await);
    assert!(!acquire().await);
    clock.set_ms(offset + 120_000);
    assert!(acquire().await, "another hour");
    for _ in 0..3 {
        clock.set_ms(offset);
        assert!(!acquire().await, "back: the stored end holds");
        clock.set_ms(offset + 120_000);
        assert!(!acquire().await, "forth");
    }
}

/// A key ends with its period, by the server's clock, and what comes then finds nothing.
#[tokio::test]
async fn a_key_that_expires_in_the_middle() {
    let Ok(clock) = ServerClock::new() else { return };
    let server = clock.server(&[]);
    let store = on(&server).await;
    before_the_hour(&clock, &server, Duration::from_secs(2));
    let (key, limits) = (unique("expires"), [hourly(3)]);
    let ticket = store.acquire(by(&key, &limits)).await.unwrap().ticket;
    let reserved = store.acquire(by(&key, &limits).reserving()).await.unwrap().ticket;
    let other = unique("expires");
    assert!(store.acquire(by(&other, &limits)).await.unwrap().allowed);
    let start = std::time::Instant::now();
    while server.cli(&["EXISTS", &other, &key]) != "0" {
        assert!(start.elapsed() < PATIENCE, "it lives on");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!store.refund(by(&key, &limits), ticket).await.unwrap());
    // What was reserved is forgotten with its hour, and charged to the one in which it is
    // committed.
    assert!(!store.settle(by(&key, &limits).reserving(), reserved, 1).await.unwrap().was_open);
    assert_eq!(store.peek(by(&key, &limits)).await.unwrap().remaining, 2);
    assert_eq!(store.peek(by(&other, &limits)).await.unwrap().remaining, 3);
}

/// Two processes whose zone data differ: here, two zones on one key.
#[tokio::test]
async fn two_processes_with_different_zone_data() {
    let (store, clock) = store_with_fake_clock().await;
    // 22:13 in London; 23:13 in Berlin.
    let [london, berlin] =
        ["1/day@Europe/London", "1/day@Europe/Berlin"].map(|limit| [limit.parse::<Limit>().unwrap()]);
    let key = unique("zones");
    let allowed = async |limits: &[Limit]| store.acquire(by(&key, limits)).await.unwrap().allowed;
    assert!(allowed(&berlin).await);
    assert!(!allowed(&london).await);
    clock.advance(HOUR);
    // Midnight in Berlin, where the stored day ends; London's goes on for an hour.
    assert!(allowed(&london).await);
    assert!(!allowed(&berlin).await, "until the end that London has stored");
    clock.advance(HOUR);
    assert!(allowed(&berlin).await);
    assert!(!allowed(&london).await);
}

/// Callers who come at once, some of the old zone data and some of the new, and each with several
/// keys: together no more are admitted than the limit, on each key.
#[tokio::test]
async fn callers_who_come_at_once_share_calls() {
    {
        let store = RedisStore::new(&shared().url()).unwrap().deny_cache(false);
        store.ready().await.unwrap();
        let store = Arc::new(store);
        let keys = [unique("once"), unique("once"), unique("once")];
        let limits = ["7/year", "7/year@Europe/Berlin"].map(|limit| [limit.parse::<Limit>().unwrap()]);
        let mut running = JoinSet::new();
        for caller in 0..90 {
            let (store, key, limits) = (Arc::clone(&store), keys[caller % 3].clone(), limits[caller % 2]);
            running.spawn(async move { (caller % 3, store.acquire(by(&key, &limits)).await.unwrap().allowed) });
        }
        let verdicts = running.join_all().await;
        for key in 0..3 {
            let admitted = verdicts.iter().filter(|(of, allowed)| *of == key && *allowed).count();
            assert_eq!(admitted, 7);
        }
    }
}

fn all_allowed(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| verdict.allowed)
}

/// Beside other algorithms and a place of a call in flight: all of them or none, on one server and
/// in one slot of a cluster.
#[tokio::test]
async fn stacked_with_others_and_with_a_place() {
    for url in [shared().url(), cluster::shared().url()] {
        let store = RedisStore::new(&url).unwrap().deny_cache(false);
        store.ready().await.unwrap();
        let [quota, log, calls] = ["quota", "log", "calls"].map(|what| unique(&format!("{{{url}}}{what}")));
        let (quotas, logs) = ([hourly(5), Limit::calendar(9, CalendarUnit::Month)], [Limit::new(2, MINUTE)]);
        let log = Request::new(log.as_bytes(), Algorithm::SlidingWindow, &logs);
        let requests = [by(&quota, &quotas), log];
        let remaining = async || {
            let quota = store.peek(requests[0]).await.unwrap().remaining;
            (quota, store.peek(requests[1]).await.unwrap().remaining)
        };
        assert!(all_allowed(&store.acquire_all(&requests).await.unwrap()));
        assert_eq!(remaining().await, (4, 1), "{url}");
        let place = || PlaceRequest::new(calls.as_bytes(), 1, PermitId::next()).with_lease(PlaceRequest::MIN_LEASE);
        let entered = place();
        assert!(store.enter(entered, &requests).await.unwrap().is_entered(), "{url}");
        assert_eq!(remaining().await, (3, 0), "{url}");
        // The log refuses, and then the place; the quota is as it was.
        assert!(!all_allowed(&store.acquire_all(&requests).await.unwrap()));
        assert!(store.enter(place(), &requests[..1]).await.unwrap().is_full);
        assert_eq!(remaining().await, (3, 0), "{url}");
        store.leave(entered);
    }
}

/// What runs no script says that it has no calendar.
#[tokio::test]
async fn what_runs_no_scripts_declares_no_calendar() {
    let scripts = RedisStore::new(&shared().url()).unwrap();
    assert!(scripts.capabilities().supports_feature(Algorithm::FixedWindow, Feature::Calendar));
    let store = RedisStore::new(&shared().url()).unwrap().mode(RedisMode::Transactions);
    assert!(!store.capabilities().supports_feature(Algorithm::FixedWindow, Feature::Calendar));
    let (key, limits) = (unique("none"), [hourly(1)]);
    let error = store.acquire(by(&key, &limits)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    assert!(error.message().contains("calendar"), "{error}");
}

//! Calendar quotas: whose clock and whose zone data decide, in one call and in shared ones.

use std::time::Duration;

use ratelimit_runtime::__private::BuiltInStore as _;
use ratelimit_runtime::store::{Request, StoreErrorKind};
use ratelimit_runtime::{Algorithm, CalendarUnit, Limit, RedisStore, Store};

use super::{PATIENCE, store_with_fake_clock};
use crate::support::clock::ServerClock;
use crate::support::redis::RedisServer;
use crate::support::{unique, until};

const HOUR: Duration = Duration::from_secs(3_600);

fn by<'a>(key: &'a str, limits: &'a [Limit]) -> Request<'a> {
    Request::new(key.as_bytes(), Algorithm::FixedWindow, limits)
}

fn hourly(max: u64) -> Limit {
    Limit::calendar(max, CalendarUnit::Hour)
}

async fn on(server: &RedisServer) -> RedisStore {
    let store = server.store().deny_cache(false);
    store.ready().await.unwrap();
    store
}

/// A clock of the server by which the next hour begins after this time.
fn before_the_hour(clock: &ServerClock, server: &RedisServer, left: Duration) -> i64 {
    const HOUR_MS: i64 = 3_600_000;
    clock.set_ms(0);
    let into = server.now_us() / 1_000 % HOUR_MS;
    let offset = HOUR_MS - into - i64::try_from(left.as_millis()).unwrap();
    clock.set_ms(offset);
    offset
}

/// The process has made its instants by its own clock, and the server decides by its own: up to a
/// period between them is nothing, and more is told. Behind, two of the longest periods are more:
/// of an hour that is four hours, as clock changes have it.
#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "sets the clock of a server by LD_PRELOAD"
)]
async fn clocks_a_calendar_period_apart_are_misconfigured() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    let store = on(&server).await;
    for (minutes, is_told) in [
        (0, false),
        (50, false),
        (-50, false),
        (125, true),
        (-9 * 60, true),
    ] {
        clock.set_ms(minutes * 60_000);
        let (key, limits) = (unique("off"), [hourly(2)]);
        let answer = store.acquire(by(&key, &limits)).await;
        if is_told {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{minutes}");
            assert!(
                error
                    .message()
                    .contains("are a calendar period apart: set them"),
                "{error}"
            );
            assert_eq!(server.cli(&["EXISTS", &key]), "0");
        } else {
            let verdict = answer.unwrap();
            assert!(verdict.allowed, "{minutes}: {verdict:?}");
            // It ends with the hour of the process, or a later one of the server's clock.
            let now = server.now_us();
            let later = now.max(now - minutes * 60_000_000);
            let left = later - later.rem_euclid(3_600_000_000) + 3_600_000_000 - now;
            let reset = i64::try_from(verdict.reset_after_us).unwrap();
            assert!(
                (reset - left).abs() < 2_000_000,
                "{minutes}: {reset}, {left}"
            );
        }
    }
}

/// A key ends with its period, by the server's clock, and what comes then finds nothing.
#[tokio::test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "sets the clock of a server by LD_PRELOAD"
)]
async fn a_key_ends_with_its_period() {
    let clock = ServerClock::new();
    let server = clock.server(&[]);
    let store = on(&server).await;
    before_the_hour(&clock, &server, Duration::from_secs(2));
    let (key, limits) = (unique("expires"), [hourly(3)]);
    let ticket = store.acquire(by(&key, &limits)).await.unwrap().ticket;
    let reserved = store
        .acquire(by(&key, &limits).reserving())
        .await
        .unwrap()
        .ticket;
    let other = unique("expires");
    assert!(store.acquire(by(&other, &limits)).await.unwrap().allowed);
    until("its end", PATIENCE, async || {
        server.cli(&["EXISTS", &other, &key]) == "0"
    })
    .await;
    assert!(!store.refund(by(&key, &limits), ticket).await.unwrap());
    // What was reserved is forgotten with its hour, and charged to the one in which it is
    // committed.
    assert!(
        !store
            .settle(by(&key, &limits).reserving(), reserved, 1)
            .await
            .unwrap()
            .was_open
    );
    assert_eq!(store.peek(by(&key, &limits)).await.unwrap().remaining, 2);
    assert_eq!(store.peek(by(&other, &limits)).await.unwrap().remaining, 3);
}

/// Two processes whose zone data differ: here, two zones on one key.
#[tokio::test]
async fn a_stored_period_lasts_whatever_zone_data_another_process_has() {
    let (store, clock) = store_with_fake_clock().await;
    // 22:13 in London; 23:13 in Berlin.
    let [london, berlin] = ["1/day@Europe/London", "1/day@Europe/Berlin"]
        .map(|limit| [limit.parse::<Limit>().unwrap()]);
    let key = unique("zones");
    let allowed = async |limits: &[Limit]| store.acquire(by(&key, limits)).await.unwrap().allowed;
    assert!(allowed(&berlin).await);
    assert!(!allowed(&london).await);
    clock.advance(HOUR);
    // Midnight in Berlin, where the stored day ends; London's goes on for an hour.
    assert!(allowed(&london).await);
    assert!(
        !allowed(&berlin).await,
        "until the end that London has stored"
    );
    clock.advance(HOUR);
    assert!(allowed(&berlin).await);
    assert!(!allowed(&london).await);
}
